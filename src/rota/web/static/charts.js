/* Live charts. The server draws each as SVG; here uPlot draws the same from data-chart, tells values under
   the pointer, and goes on with the new figures when the part round it is renewed. Colours are read from
   the SVG, which stays for those who do not see the picture. */
"use strict";

(() => {
  const drawn = new Map();

  function colours(figure, line, n) {
    const stroke = figure.querySelector(`[data-line="${n}"]`);
    const fill = figure.querySelector(`[data-fill="${n}"]`);
    const shade = fill && getComputedStyle(fill);
    const thin = stroke && getComputedStyle(stroke);
    return {
      stroke: thin ? thin.stroke : undefined,
      fill: shade ? faded(shade.fill, Number(shade.opacity)) : undefined,
      dash: thin && thin.strokeDasharray !== "none" ? [4, 3] : undefined,
    };
  }

  function faded(colour, opacity) {
    const parts = colour.match(/[\d.]+/g);
    return parts && parts.length >= 3 ? `rgba(${parts.slice(0, 3).join(",")},${opacity})` : colour;
  }

  function series(figure, line, n) {
    const look = colours(figure, line, n);
    const paths = { area: uPlot.paths.stepped({ align: 1 }), bars: uPlot.paths.bars({ align: 1, size: [0.8, 24] }) }[line.kind];
    return {
      label: line.label, width: line.kind === "bars" ? 0 : 1.5, stroke: look.stroke ?? look.fill, fill: look.fill,
      dash: look.dash, paths, points: { show: line.kind === "line", size: 4, width: 0, fill: look.stroke, filter: alone }, spanGaps: false,
    };
  }

  /* A value between two unknown ones has no line to be seen by. */
  function alone(plot, n) {
    const values = plot.data[n];
    return values.flatMap((value, at) => (value != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
  }

  /* Steps last until the next one begins: one more time closes the last of them. */
  function figures(data) {
    const steps = data.lines.some((line) => line.kind !== "line");
    const count = data.lines[0].values.length;
    const times = Array.from({ length: count + (steps ? 1 : 0) }, (_, n) => data.t0 + n * data.step);
    const values = data.lines.map((line) => (steps ? [...line.values, line.kind === "bars" ? null : line.values.at(-1)] : line.values));
    return [times, ...values];
  }

  function grid(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    for (let n = 0; n <= 4; n += 1) {
      ctx.strokeStyle = n === 4 ? plot.ground.base : plot.ground.line;
      const y = Math.round(bbox.top + (bbox.height * n) / 4) + (n === 4 ? -0.5 : 0.5);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.restore();
  }

  function said(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "count") return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 });
    const seconds = unit === "ms" ? value / 1000 : value;
    if (seconds < 1) return `${(seconds * 1000).toPrecision(2).replace(/\.0$/, "")} ms`.replace(/^0\.0 ms$/, "0");
    if (seconds < 60) return `${seconds.toPrecision(2).replace(/\.0$/, "")} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  }

  function tip(plot) {
    const { left } = plot.cursor;
    const box = plot.tip;
    box.hidden = plot.cursor.idx == null || left < 0;
    if (box.hidden) return;
    const idx = Math.min(plot.cursor.idx, plot.source.lines[0].values.length - 1);
    const zone = document.body.dataset.zone;
    const at = new Date(plot.data[0][idx] * 1000);
    const form = { weekday: plot.source.step > 900 ? "short" : undefined, hour: "2-digit", minute: "2-digit", hour12: false, timeZone: zone };
    const rows = [[at.toLocaleString("en-GB", form), ""], ...plot.source.lines.map((line) => [line.label, said(line.values[idx], plot.source.unit)])];
    box.replaceChildren(...rows.map(([word, value]) => {
      const row = document.createElement("p");
      for (const text of [word, value]) row.append(Object.assign(document.createElement("span"), { textContent: text }));
      return row;
    }));
    const room = plot.over.clientWidth;
    box.style.left = `${left > room / 2 ? Math.max(0, left - box.offsetWidth - 12) : left + 12}px`;
  }

  function make(figure, data) {
    const room = figure.querySelector(".plot");
    const picture = room.querySelector("svg");
    const options = {
      width: room.clientWidth, height: picture.clientHeight, padding: [0, 0, 0, 0],
      legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: true, range: (plot, least, most) => [least, most] }, y: { range: () => [0, plotOf(figure)?.source.top ?? data.top] } },
      series: [{}, ...data.lines.map((line, n) => series(figure, line, n))],
      hooks: { drawClear: [grid], setCursor: [tip] },
    };
    const host = document.createElement("div");
    host.setAttribute("aria-hidden", "true");
    const box = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    const style = getComputedStyle(picture.querySelector(".ax"));
    const plot = new uPlot(options, null, host);
    Object.assign(plot, { source: data, tip: box, ground: { line: style.stroke, base: getComputedStyle(picture.querySelector(".base")).stroke } });
    plot.setData(figures(data));
    return { plot, host, box };
  }

  const keyOf = (figure) => figure.closest("[id]")?.id ?? "";
  const plotOf = (figure) => drawn.get(keyOf(figure))?.plot;

  function draw(figure) {
    const data = JSON.parse(figure.dataset.chart);
    const key = keyOf(figure);
    let one = drawn.get(key);
    if (!one || one.plot.source.lines.length !== data.lines.length) {
      one?.plot.destroy();
      one = make(figure, data);
      drawn.set(key, one);
    }
    const room = figure.querySelector(".plot");
    if (one.host.parentNode !== room) {
      room.append(one.host, one.box);
      room.classList.add("drawn");
    }
    one.plot.source = data;
    one.plot.setSize({ width: room.clientWidth, height: one.plot.height });
    one.plot.setData(figures(data));
  }

  function drawAll() {
    if (typeof uPlot === "undefined") return;
    document.querySelectorAll("[data-chart]").forEach(draw);
  }

  /* Another theme has other colours. */
  function again() {
    drawn.forEach((one) => { one.plot.destroy(); one.host.remove(); one.box.remove(); });
    drawn.clear();
    drawAll();
  }

  document.addEventListener("htmx:afterSwap", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new ResizeObserver(drawAll).observe(document.body);
  drawAll();
})();
