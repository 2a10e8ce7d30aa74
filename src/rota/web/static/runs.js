/* Lists: completion of the filter of runs, and the selection of runs, schedules and queues. Both work without this file: what is
   typed is a form, and the boxes are one. */
"use strict";
(() => {
  const list = () => document.getElementById("list");

  /* ------------------------------------------------------------ completion */

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

  /* ------------------------------------------------------------ selection */

  function selection() { return document.querySelector("form[data-selection]"); }

  function boxes(form) { return [...form.querySelectorAll("td.pick input")]; }

  function tell() {
    const form = selection();
    if (!form) return;
    const bar = form.querySelector("[data-bulk]");
    const picked = boxes(form).filter((box) => box.checked);
    const whole = form.querySelector("[data-all]");
    const all = form.querySelector("[data-pick-all]");
    all.hidden = false;
    all.checked = picked.length > 0 && picked.length === boxes(form).length;
    all.indeterminate = picked.length > 0 && !all.checked;
    const isAll = whole !== null && whole.checked;
    bar.hidden = !picked.length && !isAll;
    boxes(form).forEach((box) => box.closest("tr").setAttribute("aria-selected", box.checked || isAll ? "true" : "false"));
    bar.querySelector("[data-clear]").hidden = false;
    bar.querySelector("[data-picked]").textContent = isAll
      ? `All ${whole.dataset.count} that match`.replace("  ", " ")
      : `${picked.length} ${form.dataset.selection}${picked.length === 1 ? "" : "s"} selected`;
    for (const button of bar.querySelectorAll("button[name=verb]")) {
      const fits = picked.filter((box) => box.closest("tr").dataset.verbs.split(" ").includes(button.value)).length;
      button.disabled = !isAll && !fits;
      button.title = button.disabled ? `No selected ${form.dataset.selection} is in a state for this` : "";
      button.querySelector("span").textContent = isAll ? `${button.dataset.word} all…` : fits ? `${button.dataset.word} ${fits}…` : button.dataset.word;
    }
  }

  let last = null;
  document.addEventListener("click", (event) => {
    const box = event.target.closest("form[data-selection] td.pick input");
    if (box) {
      const every = boxes(box.form);
      if (event.shiftKey && last && every.includes(last)) {
        const [from, to] = [every.indexOf(last), every.indexOf(box)].sort((a, b) => a - b);
        every.slice(from, to + 1).forEach((one) => { one.checked = box.checked; });
      }
      last = box;
      tell();
    }
    if (event.target.closest("[data-pick-all]")) {
      const form = selection();
      boxes(form).forEach((one) => { one.checked = event.target.checked; });
      tell();
    }
    if (event.target.closest("[data-all]")) tell();
    if (event.target.closest("[data-clear]")) clear();
  });

  function clear() {
    const form = selection();
    if (!form) return;
    form.querySelectorAll("input[type=checkbox]").forEach((one) => { one.checked = false; });
    tell();
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-selection]");
    if (!form || !event.submitter) return;
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    if (fields.get("all") === "1") fields.delete("id");
    askAt(`${form.action}?${fields}`);
  });

  document.addEventListener("change", (event) => {
    const chooser = event.target.closest("form[data-chooser]");
    if (chooser) chooser.requestSubmit();
  });

  /* ------------------------------------------------------------ keys, copies, what was opened */

  let before = "";
  document.addEventListener("keydown", (event) => {
    const was = before;
    before = event.key;
    if (was === "g" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
    if (!["r", "c", "e", "y"].includes(event.key) || document.querySelector("dialog[open]")) return;
    const row = document.querySelector("[data-row].cursor");
    const target = row ? row.querySelector(`[data-key="${event.key}"]`) : document.querySelector(`.head [data-key="${event.key}"]`);
    if (target) { event.preventDefault(); target.click(); }
  });
  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy-of]");
    if (!copy) return;
    const text = document.getElementById(copy.dataset.copyOf).textContent;
    copyText(text);
  });

  /* A renewed part keeps open what was opened, and shut what was shut. */
  const folds = new Map();
  document.addEventListener("htmx:beforeSwap", (event) => {
    event.target.querySelectorAll("details[id]").forEach((one) => folds.set(one.id, one.open));
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const [id, open] of folds) {
      const one = document.getElementById(id);
      if (one) one.open = open;
    }
    folds.clear();
  });

  /* What the browser kept of a page that was left: a selection ends with its action. */
  window.addEventListener("pageshow", (event) => { if (event.persisted) clear(); });
  document.addEventListener("htmx:afterSwap", (event) => { if (list() && list().contains(event.target) || event.target === list()) tell(); });
  tell();
})();
