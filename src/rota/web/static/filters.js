/* Completion of the filter of a list. Without this file, what is typed is a form. */
"use strict";
(() => {
  let asked = 0;
  let timer = null;

  function offers(input) { return input.closest("form").querySelector(".suggest"); }

  function close(input) {
    const box = offers(input);
    if (box) { box.hidden = true; box.replaceChildren(); }
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "false");
  }

  async function complete(input) {
    const mine = ++asked;
    const fields = new URLSearchParams(new FormData(input.form));
    fields.set("q", input.value);
    let text;
    try {
      const answer = await fetch(`${input.dataset.complete}?${fields}`, { headers: { "X-Rota-Part": "offers" } });
      if (!answer.ok) throw new Error(answer.status);
      text = await answer.text();
    } catch { return close(input); }
    if (mine !== asked || document.activeElement !== input) return;
    const box = offers(input);
    box.innerHTML = text;
    box.querySelectorAll("[role=option]").forEach((one, n) => { one.id = `offer-${n}`; one.tabIndex = -1; });
    box.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  function mark(input, step) {
    const all = [...offers(input).querySelectorAll("[role=option]")];
    if (!all.length) return;
    const at = all.findIndex((one) => one.getAttribute("aria-selected") === "true");
    const next = all[(at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length];
    all.forEach((one) => one.setAttribute("aria-selected", one === next ? "true" : "false"));
    next.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", next.id);
  }

  function take(input, offer) {
    if (!offer.dataset.offer) return offer.click();
    input.value = input.value.replace(/\S*$/, offer.dataset.offer);
    input.focus();
    complete(input);
  }

  document.addEventListener("input", (event) => {
    const input = event.target.closest("[data-complete]");
    if (!input) return;
    clearTimeout(timer);
    timer = setTimeout(() => complete(input), 120);
  });
  document.addEventListener("focusin", (event) => {
    const input = event.target.closest("[data-complete]");
    if (!input) return;
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    complete(input);
  });
  document.addEventListener("focusout", (event) => {
    const input = event.target.closest("[data-complete]");
    if (input && !(event.relatedTarget && offers(input).contains(event.relatedTarget))) setTimeout(() => close(input), 150);
  });
  document.addEventListener("mousedown", (event) => {
    if (event.target.closest(".suggest")) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const offer = event.target.closest(".suggest [data-offer]");
    if (offer) take(offer.closest("form").querySelector("[data-complete]"), offer);
    if (event.target.closest("[data-copy-link]")) {
      copyText(location.href);
    }
  });
  document.addEventListener("keydown", (event) => {
    const input = event.target.closest("[data-complete]");
    if (!input) return;
    const chosen = offers(input).querySelector("[aria-selected=true]");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(input, event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Escape") { close(input); return; }
    else if (event.key === "Enter" && chosen) take(input, chosen);
    else if (event.key === "Tab" && chosen && chosen.dataset.offer) take(input, chosen);
    else if (event.key === "Backspace" && !input.value) {
      const last = [...input.form.querySelectorAll(".token a")].pop();
      if (last) last.click();
      return;
    } else return;
    event.preventDefault();
  });
})();
