/* Rota's dashboard. Every page can be read and used without this file: it keeps pages live, opens
   questions as dialogs, and answers keys. No inline script anywhere, so the CSP can stay strict. */
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

/* ---------------------------------------------------------------- live parts */

/* A part (data-part) says which topics concern it. It is renewed in place, and never under the hand:
   not while something is selected, open or being read. */
const live = { held: false, waiting: 0, timer: null, due: new Set() };

function isBusy() {
  return (
    live.held ||
    document.querySelector("dialog[open], details.menu[open], [data-row] input:checked") !== null ||
    !getSelection().isCollapsed ||
    (document.activeElement !== null && document.activeElement.matches("main input, main textarea, main select"))
  );
}

function heard(news) {
  const topics = news.split(",");
  for (const part of all("[data-part]")) {
    const own = (part.dataset.topics || "").split(",");
    if (news === "resync" || own.some((topic) => topics.includes(topic))) live.due.add(part.id);
  }
  if (live.due.size && live.timer === null) live.timer = setTimeout(renew, 400);
}

function renew() {
  live.timer = null;
  if (document.hidden) return;
  if (isBusy()) {
    live.waiting += 1;
    live.timer = setTimeout(renew, 1000);
    return tellLive();
  }
  live.waiting = 0;
  for (const id of live.due) {
    const part = document.getElementById(id);
    if (part) {
      htmx.ajax("GET", location.pathname + location.search, {
        target: part, swap: "outerHTML", headers: { "X-Rota-Part": part.dataset.part },
      });
    }
  }
  live.due.clear();
  tellLive();
}

function tellLive(state) {
  for (const bar of all("[data-live]")) {
    const text = bar.querySelector("[data-live-text]");
    const held = state === "away" || live.held || live.waiting > 0;
    bar.hidden = false;
    bar.classList.toggle("held", held);
    text.textContent =
      state === "away" ? "Not live: the server does not answer" :
      live.held ? "Held" :
      live.waiting > 0 ? "Held while you are busy here" : "Live";
  }
}

/* One stream a browser: whoever holds the lock listens and tells the other tabs. */
function listen() {
  const channel = new BroadcastChannel("rota-live");
  channel.onmessage = (message) => heard(message.data);
  const open = () =>
    new Promise((done) => {
      const stream = new EventSource(`${root}/live`);
      stream.onopen = () => tellLive();
      stream.onerror = () => tellLive("away");
      stream.onmessage = (message) => { heard(message.data); channel.postMessage(message.data); };
      document.addEventListener("visibilitychange", () => { if (document.hidden) { stream.close(); done(); } }, { once: true });
    });
  const take = () => (navigator.locks ? navigator.locks.request("rota-live", open) : open());
  const whileSeen = () => { if (!document.hidden) take().then(() => { if (!document.hidden) whileSeen(); }); };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { heard("resync"); whileSeen(); } });
  whileSeen();
  tellLive();
}

/* ---------------------------------------------------------------- dialogs, copies, toasts */

async function ask(link) {
  const dialog = document.getElementById("dialog");
  await htmx.ajax("GET", link.getAttribute("href"), {
    target: dialog, swap: "innerHTML", headers: { "X-Rota-Part": "question" },
  });
  dialog.showModal();
  const first = dialog.querySelector("[autofocus], .input, .btn.primary");
  if (first) first.focus();
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
    navigator.clipboard.writeText(copy.dataset.copy).then(() => toast("Copied"), () => toast("Not copied: the browser refuses"));
  }
});

function toast(text) {
  const one = document.createElement("div");
  one.className = "toast";
  one.setAttribute("role", "status");
  one.textContent = text;
  document.getElementById("toasts").append(one);
  setTimeout(() => one.remove(), 5000);
}

/* ---------------------------------------------------------------- keys */

const GO = { o: "/", r: "/runs", s: "/schedules", l: "/logs", h: "/system", j: "/jobs", q: "/queues", w: "/workers", e: "/errors" };
let before = "";

function move(step) {
  const rows = all("[data-row]");
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("cursor"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  rows.forEach((row) => row.classList.toggle("cursor", row === next));
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus({ preventScroll: true });
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  const pressed = event.key;
  const row = document.querySelector(".cursor");
  if (before === "g" && GO[pressed]) location.assign(root + GO[pressed]);
  else if (pressed === "j") move(1);
  else if (pressed === "k") move(-1);
  else if (pressed === "/") document.querySelector("[data-filter], [type=search]")?.focus();
  else if (pressed === ".") { live.held = !live.held; tellLive(); if (!live.held) heard("resync"); }
  else if (pressed === "Enter" && row) row.querySelector("a")?.click();
  else if (pressed === "x" && row) row.querySelector("input[type=checkbox]")?.click();
  else if (pressed === "y" && row?.dataset.id) navigator.clipboard.writeText(row.dataset.id).then(() => toast("Copied"));
  else if (pressed === "Escape") { all("[data-row] input:checked").forEach((box) => box.click()); getSelection().empty(); }
  else { before = pressed; return; }
  before = "";
  event.preventDefault();
}

document.addEventListener("keydown", key);
keepZone();
tellTimes();
setInterval(tellTimes, 1000);
for (const one of all("[data-toast]")) setTimeout(() => one.remove(), 5000);
if (document.querySelector("[data-part]")) listen();
