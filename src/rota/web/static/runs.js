/* Lists: the selection of runs, schedules and queues. It works without this file: the boxes are a form. */
"use strict";
(() => {
  const list = () => document.getElementById("list");

  /* ------------------------------------------------------------ selection */

  function selection() { return document.querySelector("form[data-selection]"); }

  function boxes(form) { return [...form.querySelectorAll("td.pick input")]; }

  const fits = (box, verb) => box.closest("tr").dataset.verbs.split(" ").includes(verb);

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
      const many = picked.filter((box) => fits(box, button.value)).length;
      button.disabled = !isAll && !many;
      button.title = button.disabled ? `No selected ${form.dataset.selection} is in a state for this` : "";
      button.querySelector("span").textContent = isAll ? `${button.dataset.word} all…` : many ? `${button.dataset.word} ${many}…` : button.dataset.word;
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
    const [{ name }] = boxes(form);
    fields.delete(name);
    if (fields.get("all") !== "1") {
      const picked = boxes(form).filter((box) => box.checked && fits(box, event.submitter.value));
      picked.forEach((box) => fields.append(name, box.value));
    }
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
