/* The palette: Ctrl K, a few letters, Enter. Without this file the same is a page, /search. */
"use strict";

const palette = document.getElementById("palette");
const asked = palette?.querySelector("input");
const hits = palette?.querySelector("[data-hits]");
let asking = null;
let wait = null;
let answered = null; // what the hits that are shown were asked for by

function openPalette() {
  if (!palette || palette.open) return;
  all("dialog[open]").forEach((one) => one.close());
  palette.showModal();
  asked.select();
  look();
}

/* Only the last question counts: an older answer that comes later is dropped. */
async function look() {
  asking?.abort();
  asking = new AbortController();
  const text = asked.value;
  try {
    const answer = await fetch(`${root}/search?q=${encodeURIComponent(text)}`, {
      headers: { "X-Rota-Part": "hits" }, signal: asking.signal,
    });
    if (!answer.ok) throw new Error(String(answer.status));
    hits.innerHTML = await answer.text();
    answered = text;
    name();
    choose(0);
  } catch (error) {
    if (error.name !== "AbortError") hits.textContent = "The server does not respond. Try again.";
  }
}

/* On a page these are links; here they are what a combobox offers. */
function name() {
  const list = hits.firstElementChild;
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  for (const group of all("[data-group]", list)) {
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", group.querySelector("h2").textContent);
    group.querySelector("h2").setAttribute("role", "presentation");
  }
  all("a", list).forEach((one) => one.setAttribute("role", "option"));
}

/* Who types and presses Enter at once means what was typed, and not what is still shown. */
async function take() {
  clearTimeout(wait);
  if (answered !== asked.value) await look();
  if (palette.open && answered === asked.value) options().find((one) => one.getAttribute("aria-selected") === "true")?.click();
}

const options = () => all("a[role=option]", hits);

function choose(at) {
  const found = options();
  found.forEach((one, n) => {
    one.id = `hit-${n}`;
    one.tabIndex = -1;
    one.setAttribute("aria-selected", String(n === at));
  });
  asked.setAttribute("aria-activedescendant", found[at]?.id ?? "");
  found[at]?.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const found = options();
  const at = found.findIndex((one) => one.getAttribute("aria-selected") === "true");
  if (found.length) choose((at + by + found.length) % found.length);
}

if (palette) {
  asked.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(look, 120); });
  palette.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter") take();
    else return;
    event.preventDefault();
  });
  /* An action opens its question in the dialog below: the palette makes way first. */
  palette.addEventListener("click", (event) => {
    if (event.target === palette || event.target.closest("a[role=option]")) palette.close();
  }, true);
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-palette]");
  if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); openPalette(); }
});
