/* Tells the values of a chart under the pointer. The server draws the chart and writes the words of each
   step into data-chart; a chart that was renewed meanwhile is asked again. */
"use strict";

(() => {
  let pointer = null;

  function paragraph(words) {
    const row = document.createElement("p");
    row.append(...words.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    return row;
  }

  function tell(plot, x) {
    const { times, lines } = JSON.parse(plot.closest("[data-chart]").dataset.chart);
    const [mark, tip] = [plot.querySelector(".mark"), plot.querySelector(".tip")];
    const { left, width } = plot.getBoundingClientRect();
    const n = Math.min(times.length - 1, Math.max(0, Math.floor(((x - left) / width) * times.length)));
    const at = ((n + 0.5) / times.length) * width;
    tip.replaceChildren(...[[times[n], ""], ...lines.map(([label, values]) => [label, values[n] || "–"])].map(paragraph));
    mark.hidden = tip.hidden = false;
    mark.style.left = `${at}px`;
    tip.style.left = `${at > width / 2 ? Math.max(0, at - tip.offsetWidth - 12) : at + 12}px`;
  }

  function look() {
    const plot = pointer && document.elementFromPoint(...pointer)?.closest("[data-chart] .plot");
    document.querySelectorAll("[data-chart] .plot").forEach((one) => {
      if (one !== plot) one.querySelectorAll(".mark, .tip").forEach((part) => { part.hidden = true; });
    });
    if (plot) tell(plot, pointer[0]);
  }

  document.addEventListener("pointermove", (event) => { pointer = [event.clientX, event.clientY]; look(); });
  document.addEventListener("pointerleave", () => { pointer = null; look(); });
  document.addEventListener("htmx:afterSwap", look);
})();
