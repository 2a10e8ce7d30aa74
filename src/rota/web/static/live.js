/* Parts of a page that stay live. A part (data-part) says which topics concern it (data-topics), and may
   say how often at most (data-every, seconds) and from which address (data-from) it is renewed. It is
   renewed in place, and never under the hand: not while something in it is selected, open, typed or
   being pointed at. */
"use strict";

const hold = (() => {
const SOON = 150, REST = 1000, SILENT = 45000;
const live = { stale: "", held: false, isRead: false, isReady: false, changes: 0, trouble: "Connecting", place: document.body.dataset.place, due: new Set(), renewed: new Map(), again: new Set(), busy: new Set(), timer: null, last: 0 };

/* ---------------------------------------------------------------- what holds a part still */

/* A mouse that rests on a row holds its list: what it points at stays there. */
const hand = { at: -Infinity, part: null, row: null };
document.addEventListener("pointermove", (event) => {
  hand.at = performance.now();
  hand.part = event.target.closest?.("[data-part]");
  hand.row = event.pointerType === "mouse" ? event.target.closest?.("[data-row]") : null;
}, { passive: true });
document.documentElement.addEventListener("pointerleave", () => { hand.row = null; });

function isRead(part) {
  const focused = document.activeElement;
  const selection = getSelection();
  return (
    live.held ||
    (hand.row?.isConnected && part.contains(hand.row)) ||
    document.querySelector("dialog[open], details.menu[open]") !== null ||
    part.querySelector("[data-row] input:checked") !== null ||
    (!selection.isCollapsed && part.contains(selection.anchorNode)) ||
    (part.contains(focused) && focused.matches("input:not([type=checkbox]), textarea, select"))
  );
}

const isPointedAt = (part) => hand.part === part && performance.now() - hand.at < REST;

/* ---------------------------------------------------------------- renewing */

function heard(news) {
  const topics = news.split(",");
  for (const part of all("[data-part]")) {
    const own = (part.dataset.topics || "").split(",");
    if (news === "resync" || own.some((topic) => topics.includes(topic))) {
      live.due.add(part.id);
      live.again.delete(part.id);
    }
  }
  if (live.due.size === 0) return tellLive();
  live.changes += 1;
  wait(SOON);
}

function wait(milliseconds) {
  if (live.timer === null) live.timer = setTimeout(renew, Math.max(milliseconds, live.last + REST - performance.now()));
}

function renew() {
  live.timer = null;
  if (document.hidden) return;
  live.isRead = false;
  for (const part of [...live.due].map((id) => document.getElementById(id)).filter(Boolean)) {
    if (isRead(part)) live.isRead = true;
    else if (!isPointedAt(part) && !live.busy.has(part.id) && isDue(part)) renewPart(part);
  }
  if (!live.isRead) live.changes = 0;
  for (const id of live.due) if (!document.getElementById(id)) live.due.delete(id);
  if (live.due.size) wait(REST);
  tellLive();
}

function isDue(part) {
  return performance.now() - (live.renewed.get(part.id) ?? -Infinity) >= Number(part.dataset.every || 0) * 1000;
}

/* What is renewed seldom is answered from what the server read a moment ago, which may be older than the news: so once more. */
async function renewPart(part) {
  if (!part.dataset.every || live.again.delete(part.id)) live.due.delete(part.id);
  else live.again.add(part.id);
  live.busy.add(part.id);
  live.renewed.set(part.id, (live.last = performance.now()));
  await htmx.ajax("GET", part.dataset.from || location.pathname + location.search, {
    source: part, target: part, swap: "outerHTML", headers: { "X-Rota-Part": part.dataset.part },
  }).catch(() => {});
  live.busy.delete(part.id);
  tellLive();
  const fresh = document.getElementById(part.id);
  if (fresh && fresh !== part && kept.has(part.id)) bringBack(fresh, kept.get(part.id));
}

/* Meanwhile somebody may have taken hold of it. */
const kept = new Map();
document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  if (!live.busy.has(part.id)) return;
  kept.set(part.id, remember(part));
  if (!isRead(part)) return;
  event.detail.shouldSwap = false;
  live.due.add(part.id);
  wait(REST);
});

/* What somebody has opened, reached or scrolled to is as it was. */
const nameOf = (one) => one.id || one.querySelector("summary")?.textContent.trim().slice(0, 80);

const scrolling = (part) => [part, ...all(".log, .pre, .tabs", part)];

function remember(part) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  return {
    folds: new Map(all("details", part).map((one) => [nameOf(one), one.open])),
    scrolls: scrolling(part).map((one) => [one.scrollTop, one.scrollLeft]),
    cursor: part.querySelector(".cursor")?.dataset.id,
    focus: focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") && `a[href="${CSS.escape(focused.getAttribute("href"))}"]`),
  };
}

function bringBack(part, kept) {
  for (const one of all("details", part)) {
    const was = kept.folds.get(nameOf(one));
    if (was !== undefined) one.open = was;
  }
  scrolling(part).forEach((one, n) => {
    if (kept.scrolls[n]) [one.scrollTop, one.scrollLeft] = kept.scrolls[n];
  });
  if (kept.cursor) part.querySelector(`[data-row][data-id="${CSS.escape(kept.cursor)}"]`)?.classList.add("cursor");
  if (kept.focus) part.querySelector(kept.focus)?.focus({ preventScroll: true });
  tellTimes();
}

document.addEventListener("htmx:responseError", (event) => tellLive(`Not updated: the server returned ${event.detail.xhr.status}`));
document.addEventListener("htmx:sendError", () => tellLive("Not live: the server does not respond"));
document.addEventListener("htmx:afterSwap", () => tellLive(""));

/* The tab's title says how many things need somebody. */
document.addEventListener("htmx:afterSwap", () => {
  const count = Number(document.getElementById("nav")?.dataset.attention || 0);
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
});

/* ---------------------------------------------------------------- saying so */

function hold() {
  live.held = !live.held;
  if (!live.held) heard("resync");
  tellLive();
}

/* While the server cannot read the database, or does not answer, everything shown is as it was then. */
function tellStale(words, since) {
  const at = new Date(since);
  live.stale ||= `${words[0]} since ${at.toLocaleTimeString("en-GB", { timeZone: document.body.dataset.zone })}: ${words[1]}`;
  let note = document.getElementById("stale");
  if (!note) {
    note = Object.assign(document.createElement("p"), { id: "stale", className: "note warn stale-note" });
    note.setAttribute("role", "status");
    document.getElementById("main").prepend(note);
  }
  note.textContent = `${live.stale}. What this page shows is from then; it is updated as soon as that is possible.`;
  document.body.classList.add("stale");
  tellLive(live.stale);
}

function tellFresh() {
  live.stale = "";
  document.getElementById("stale")?.remove();
  document.body.classList.remove("stale");
  tellLive("");
}

function tellLive(trouble = live.trouble) {
  live.trouble = live.stale || trouble;
  trouble = live.trouble;
  live.isReady ||= trouble === "" && live.busy.size === 0 && [...live.due].every((id) => live.again.has(id));
  const held = live.held || live.isRead;
  const words = live.changes === 1 ? "Held, 1 change" : live.changes > 1 ? `Held, ${live.changes} changes` : "Held";
  for (const bar of all("[data-live]")) {
    bar.hidden = false;
    bar.classList.toggle("held", held || trouble.startsWith("Not"));
    bar.setAttribute("aria-pressed", String(live.held));
    bar.title = live.held ? "Resume live updates (.)" : held ? "Resumes when nothing here is pointed at, selected, open or being edited" : "Pause live updates (.)";
    bar.querySelector("[data-live-text]").textContent = trouble || (held ? words : live.isReady ? "Live" : "Connecting");
  }
}

document.addEventListener("click", (event) => { if (event.target.closest("[data-live]")) hold(); });

/* ---------------------------------------------------------------- hearing */

/* One stream a browser: whoever holds the lock listens and tells the other tabs, also of trouble. */
function listen() {
  const channel = new BroadcastChannel(`rota-live${root}`);
  const tell = (...what) => {
    live.lastWord = ["gone", "stale"].includes(what[0]) ? what : null;
    hear(...what);
    channel.postMessage(what);
  };
  channel.onmessage = (message) => {
    if (message.data[0] !== "who") hear(...message.data);
    else if (live.isListening) channel.postMessage(live.lastWord ?? ["state", live.trouble, live.place]);
  };
  const take = () => (navigator.locks ? navigator.locks.request(`rota-live${root}`, () => follow(tell)) : follow(tell));
  const whileSeen = async () => { while (!document.hidden) await take(); };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) whileSeen(); });
  whileSeen();
  channel.postMessage(["who"]);
  tellLive();
}

/* A page knows up to which place of the stream it has seen everything. */
function hear(word, what, place) {
  if (word === "gone") return tellStale(["Not live", "the server does not respond"], what);
  if (word === "stale") {
    live.stale = "";
    return tellStale(["Not updated", "the database is unavailable"], what);
  }
  if (word === "state") {
    if (what === "" && place !== live.place) heard("resync");
    if (what === "") tellFresh();
    else tellLive(what);
  }
  live.place = place ?? live.place;
  if (word === "news") { tellFresh(); heard(what); }
}

/* Until the tab is hidden, or the stream is beyond hope: a browser comes back to one that breaks off,
   not to one that is refused or falls silent. */
function follow(tell) {
  return new Promise((done) => {
    const stream = new EventSource(`${root}/live?after=${encodeURIComponent(live.place)}`);
    let silence, seen = Date.now();
    live.isListening = true;
    const end = (pause) => {
      live.isListening = false;
      clearTimeout(silence);
      stream.close();
      document.removeEventListener("visibilitychange", leave);
      setTimeout(done, pause);
    };
    const leave = () => { if (document.hidden) end(0); };
    const alive = () => { seen = Date.now(); clearTimeout(silence); silence = setTimeout(() => end(0), SILENT); };
    stream.onmessage = (message) => { alive(); tell("news", message.data, message.lastEventId); };
    stream.addEventListener("beat", () => { alive(); tell("state", "", live.place); });
    stream.addEventListener("stale", (message) => { alive(); tell("stale", message.data); });
    stream.onerror = () => {
      tell("gone", seen);
      if (stream.readyState === EventSource.CLOSED) end(5000);
    };
    document.addEventListener("visibilitychange", leave);
    alive();
  });
}

if (document.querySelector("[data-part]")) listen();
return hold;
})();
