/* Rota's dashboard. Every page can be read and used without scripts: this one tells times, opens
   questions as dialogs, and answers keys; live.js keeps pages live. No inline script anywhere, so
   the CSP can stay strict. */
"use strict";

const root = document.body.dataset.root;
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

/* ---------------------------------------------------------------- times */

/* Chosen once: the browser's zone, unless somebody has chosen another. */
function keepZone() {
  if (/(?:^|; )rota_zone=/.test(document.cookie)) return;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || sessionStorage.getItem("rota-zone")) return;
  sessionStorage.setItem("rota-zone", zone);
  document.cookie = `rota_zone=${encodeURIComponent(zone)}; path=${root || "/"}; max-age=31536000; samesite=lax`;
  if (zone !== document.body.dataset.zone) location.reload();
}

function roughly(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

/* The server's clock counts: what it showed is moved on by the time that has passed here. */
const loaded = { at: performance.now(), now: null };
function now() {
  if (loaded.now === null) {
    const shown = document.querySelector(".side-foot time");
    loaded.now = shown ? Date.parse(shown.dateTime) : Date.now();
  }
  return loaded.now + (performance.now() - loaded.at);
}

function tellTimes() {
  for (const one of all('time[data-time="relative"]')) {
    const seconds = (now() - Date.parse(one.dateTime)) / 1000;
    one.textContent = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${roughly(seconds)} ago` : `in ${roughly(-seconds)}`;
  }
}

/* ---------------------------------------------------------------- dialogs, copies, toasts */

function ask(link) {
  return askAt(link.getAttribute("href"));
}

/* A question comes into a dialog. What cannot be asked is told by a page of its own. */
async function askAt(address) {
  const dialog = document.getElementById("dialog");
  const slow = setTimeout(() => { dialog.replaceChildren(skeleton()); dialog.showModal(); }, 300);
  const answer = await fetch(address, { headers: { "X-Rota-Part": "question", "HX-Request": "true" } }).catch(() => null);
  clearTimeout(slow);
  if (!answer?.ok) return location.assign(address);
  showQuestion(dialog, await answer.text());
}

/* The first field that needs something has the focus. */
function showQuestion(dialog, text) {
  htmx.swap(dialog, text, { swapStyle: "innerHTML" });
  all("details.menu[open]").forEach((one) => { one.open = false; });
  if (!dialog.open) dialog.showModal();
  const needs = all(".input[required]", dialog).find((one) => !one.value);
  (dialog.querySelector("[aria-invalid=true]") ?? needs ?? dialog.querySelector(".input, .btn.primary"))?.focus();
}

/* An answer is sent from where one is: what is wrong with it, or what was counted first, is told in
   the dialog, and the list is still there afterwards. */
async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  fields.set("came_from", location.pathname.slice(root.length) + location.search);
  if (button) button.disabled = true;
  const answer = await fetch(form.action, {
    method: "POST", body: fields, headers: { "X-Rota-Part": "question", "HX-Request": "true" },
  }).catch(() => null);
  const to = answer?.headers.get("X-Rota-Go") ?? answer?.headers.get("HX-Redirect");
  if (to) return location.assign(to);
  const text = await answer?.text();
  if ((answer?.ok || answer?.status === 422) && text.includes("<form")) return showQuestion(form.closest("dialog"), text);
  if (button) button.disabled = false;
  const told = text && new DOMParser().parseFromString(text, "text/html").querySelector(".note");
  form.querySelector(".note[role=alert]")?.remove();
  form.querySelector(".stack").prepend(told || note("The server does not respond."));
}

function note(text) {
  const one = Object.assign(document.createElement("p"), { className: "note failed", textContent: text });
  one.setAttribute("role", "alert");
  return one;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("#dialog form[method=post]");
  if (!form) return;
  event.preventDefault();
  send(form, event.submitter);
});

function skeleton() {
  const one = document.createElement("div");
  one.className = "skel";
  one.setAttribute("aria-label", "Loading");
  return one;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    ask(link);
  }
  const close = event.target.closest("dialog [data-close]");
  if (close) {
    event.preventDefault();
    close.closest("dialog").close();
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    copyText(copy.dataset.copy);
  }
});

/* A menu opens to the left of its button and below it, or else where it does not leave the screen. */
document.addEventListener("toggle", (event) => {
  const pop = event.target.matches?.("details.menu[open]") && event.target.querySelector(".pop");
  if (!pop) return;
  pop.classList.remove("to-right", "to-top");
  const place = pop.getBoundingClientRect();
  pop.classList.toggle("to-right", place.left < 0);
  pop.classList.toggle("to-top", place.bottom > innerHeight && place.height < place.top);
}, true);

/* Browsers offer the clipboard over HTTPS and on this machine only; elsewhere a selection is copied. */
async function copyText(text) {
  const isCopied = navigator.clipboard
    ? await navigator.clipboard.writeText(text).then(() => true, () => false)
    : copySelected(text);
  toast(isCopied ? "Copied" : "Not copied: the browser does not allow it");
}

function copySelected(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "off-screen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const focused = document.activeElement;
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

function toast(text) {
  const one = document.createElement("div");
  one.className = "toast";
  one.setAttribute("role", "status");
  one.textContent = text;
  document.getElementById("toasts").append(one);
  setTimeout(() => one.remove(), 5000);
}

/* ---------------------------------------------------------------- keys */

const GO = { o: "/", r: "/runs", s: "/schedules", l: "/logs", h: "/doctor", j: "/jobs", q: "/queues", w: "/workers", e: "/errors" };
let before = "";

function move(step) {
  const rows = all("[data-row]");
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("cursor"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  rows.forEach((row) => row.classList.toggle("cursor", row === next));
  next.scrollIntoView({ block: "nearest" });
  subjectOf(next)?.focus({ preventScroll: true });
}

/* The link to what the row is about: not its switch. */
const subjectOf = (row) => row.querySelector(".name a") ?? row.querySelector("a:not([role=switch])");

/* A verb is a link of the row that the cursor is on, or else of the page. */
const VERBS = { r: ["retry"], c: ["cancel"], e: ["edit"] };
function act(verbs, row) {
  const place = row ?? document.querySelector("main");
  const link = all("a[href]", place).find((one) => verbs.some((verb) => new URL(one.href).pathname.endsWith(`/${verb}`)));
  link?.click();
  return Boolean(link);
}

function selectUpTo(row) {
  const rows = all("[data-row]");
  const at = rows.indexOf(row);
  const last = rows.findLastIndex((one, n) => n < at && one.querySelector("input:checked"));
  for (const one of rows.slice(Math.max(0, last), at + 1)) {
    const box = one.querySelector("input[type=checkbox]");
    if (box && !box.checked) box.click();
  }
}

/* Where letters are typed they are no keys. A dialog that was closed a moment ago may have the focus still. */
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const pressed = event.key;
  const row = document.querySelector(".cursor");
  if (before === "g" && GO[pressed]) location.assign(root + GO[pressed]);
  else if (pressed === "j") move(1);
  else if (pressed === "k") move(-1);
  else if (pressed === "/") document.querySelector("[data-filter], [type=search]")?.focus();
  else if (pressed === ".") hold();
  else if (pressed === "?") ask(Object.assign(document.createElement("a"), { href: `${root}/keys` }));
  else if (pressed === "Enter" && row && document.activeElement === document.body) subjectOf(row)?.click();
  else if (pressed === "x" && row) row.querySelector("input[type=checkbox]")?.click();
  else if (pressed === "X" && row) selectUpTo(row);
  else if (VERBS[pressed] && act(VERBS[pressed], row)) { /* a question is open now */ }
  else if (pressed === "y" && row) copyText(row.dataset.id ?? subjectOf(row)?.textContent.trim() ?? "");
  else if (pressed === "Escape") { all("[data-row] input:checked").forEach((box) => box.click()); getSelection().empty(); }
  else { before = pressed; return; }
  before = "";
  event.preventDefault();
}

/* On a narrow screen the navigation scrolls sideways: to where one is. */
function showSection() {
  const nav = document.getElementById("nav");
  const here = nav?.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
}

/* A page that could not be read comes back by itself. */
async function retry() {
  const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => null);
  if (answer && ![503, 504].includes(answer.status)) location.reload();
  else setTimeout(retry, 5000);
}

document.addEventListener("keydown", key);
if (document.querySelector("[data-retry]")) setTimeout(retry, 5000);
showSection();
keepZone();
tellTimes();
setInterval(tellTimes, 1000);
for (const one of all("[data-toast]")) setTimeout(() => one.remove(), 5000);
