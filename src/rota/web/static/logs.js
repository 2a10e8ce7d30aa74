/* Logs: lines that open, and tails that follow. Without this file a page shows the last lines, and
   each opens by its own button. */
"use strict";

/* ---------------------------------------------------------------- lines */

function lineText(line) {
  const at = line.querySelector("time");
  const said = line.querySelector(".m").cloneNode(true);
  said.querySelectorAll(".f, a").forEach((one) => one.remove());
  const names = all("dl dt", line).slice(1).map((one) => one.textContent);
  const values = all("dl dd", line).slice(1).map((one) => one.textContent);
  const fields = names.map((name, n) => `${name}=${values[n]}`).join(" ");
  return `${at ? at.dateTime : ""} ${line.querySelector(".lv")?.textContent.trim() ?? ""} ${said.textContent.trim()} ${fields}`.trim();
}

document.addEventListener("click", (event) => {
  const copied = event.target.closest("[data-copy-line]");
  if (copied) return copyText(lineText(copied.closest(".l")));
  if (event.target.closest("[data-wrap]")) return wrap(!document.body.classList.contains("nowrap-logs"));
  const line = event.target.closest(".log .l");
  if (!line || event.target.closest("a, button, summary, .more") || !getSelection().isCollapsed) return;
  const opens = line.querySelector("details.opens");
  if (opens) opens.open = !opens.open;
});

/* Chosen once, kept for the next visit. */
function wrap(isOff) {
  document.body.classList.toggle("nowrap-logs", isOff);
  localStorage.setItem("rota-nowrap", isOff ? "1" : "");
  all("[data-wrap]").forEach((one) => one.setAttribute("aria-pressed", String(!isOff)));
}

/* ---------------------------------------------------------------- tails */

const MOST_SHOWN = 3000;
const SILENCE_MS = 12000; // a beat comes every second
const PAUSES = [1, 2, 5, 10, 20];

const timeOf = (line) => Number(line.dataset.key.split(".")[0]);

/* What an error says, be it a page or a line of text. */
function messageOf(text) {
  const main = new DOMParser().parseFromString(text, "text/html").querySelector("main p");
  return (main?.textContent ?? text).trim().slice(0, 200);
}

class Tail {
  constructor(box) {
    this.box = box;
    this.lines = box.querySelector("[data-tail-lines]");
    this.seen = new Set(all(".l", this.lines).map((one) => one.dataset.key));
    this.last = all(".l", this.lines).at(-1)?.dataset.key ?? "";
    this.follows = true;
    this.unread = 0;
    this.tries = 0;
    this.stream = null;
    this.lines.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.follow = box.querySelector("[data-tail-follow]");
    this.follow.addEventListener("click", () => this.toEnd());
    box.querySelector("[data-tail-still]").hidden = true;
    box.querySelector("[data-tail-state]").hidden = false;
    this.earlier = box.querySelector("[data-tail-earlier]");
    if (this.earlier) {
      this.earlier.hidden = false;
      this.earlier.querySelector("button").addEventListener("click", () => this.loadEarlier());
    }
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.open()));
    setInterval(() => this.watch(), 2000);
    this.toEnd();
    this.open();
  }

  /* The stream. Whatever happens to it, the bar says so, and it is opened again. */
  open() {
    if (!this.box.dataset.tail) { this.state = "over"; return this.tell(); }
    if (this.stream || document.hidden) return;
    clearTimeout(this.timer);
    const address = new URL(this.box.dataset.tail, location.href);
    if (this.last) address.searchParams.set("after", this.last);
    this.heardAt = performance.now();
    this.stream = new EventSource(address);
    this.stream.addEventListener("beat", () => this.heard());
    this.stream.addEventListener("lines", (event) => { this.heard(); this.add(event.data); });
    this.stream.addEventListener("gap", (event) => { this.heard(); this.leaveOut(event.data); });
    this.stream.onerror = () => this.lost();
  }

  heard() {
    this.heardAt = performance.now();
    this.tries = 0;
    this.state = "connected";
    this.tell();
  }

  lost() {
    this.close();
    this.askWhy();
    const seconds = PAUSES[Math.min(this.tries++, PAUSES.length - 1)];
    this.state = "lost";
    this.againAt = performance.now() + seconds * 1000;
    this.timer = setTimeout(() => this.open(), seconds * 1000);
    this.tell();
  }

  /* A stream that is refused does not say why; an ordinary request does. */
  async askWhy() {
    if (this.tries < 2) { this.reason = ""; return; }
    const stop = new AbortController();
    try {
      const answer = await fetch(new URL(this.box.dataset.tail, location.href), { signal: stop.signal });
      this.reason = answer.ok ? "" : messageOf(await answer.text());
    } catch { /* the server is not there */ }
    stop.abort();
  }

  rest() { if (this.state === "over") return; this.close(); clearTimeout(this.timer); this.state = "resting"; this.tell(); }

  close() { if (this.stream) this.stream.close(); this.stream = null; }

  /* A connection that is open and silent is none. */
  watch() {
    if (this.stream && performance.now() - this.heardAt > SILENCE_MS) this.lost();
    if (this.state === "lost") this.tell();
  }

  /* What has come. Lines may come late or twice: each is shown once. */
  add(html) {
    const made = document.createElement("template");
    made.innerHTML = html;
    const oldest = this.lines.querySelector(".l");
    const fresh = [...made.content.querySelectorAll(".l")].filter((one) =>
      !this.seen.has(one.dataset.key) && (!oldest || timeOf(one) >= timeOf(oldest)));
    if (!fresh.length) return;
    this.box.querySelector("[data-tail-none]")?.remove();
    for (const one of fresh) this.put(one);
    this.last = all(".l", this.lines).at(-1).dataset.key;
    if (this.follows) { this.trim(); this.toEnd(); } else this.unread += fresh.length;
    this.tell();
  }

  /* Lines are missing here, and it says so. Once: whoever comes back again is told of the whole. */
  leaveOut(html) {
    const made = document.createElement("template");
    made.innerHTML = html;
    if (this.lines.lastElementChild?.matches("[data-tail-gap]")) this.lines.lastElementChild.remove();
    this.lines.append(made.content);
    if (this.follows) this.toEnd();
  }

  /* In the order of time: of several workers one writes a second later than another. */
  put(line) {
    this.seen.add(line.dataset.key);
    let after = this.lines.lastElementChild;
    while (after?.matches(".l") && timeOf(after) > timeOf(line)) after = after.previousElementSibling;
    if (after) after.after(line); else this.lines.append(line);
  }

  trim() {
    const shown = all(".l", this.lines);
    const many = shown.slice(0, Math.max(0, shown.length - MOST_SHOWN));
    many.forEach((one) => { this.seen.delete(one.dataset.key); one.remove(); });
  }

  scrolled() {
    const box = this.lines;
    this.follows = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
    if (this.follows) this.unread = 0;
    if (box.scrollTop < 40 && this.earlier && !this.follows) this.loadEarlier();
    this.tell();
  }

  toEnd() {
    this.follows = true;
    this.unread = 0;
    this.lines.scrollTop = this.lines.scrollHeight;
    this.tell();
  }

  hold() { if (this.follows) { this.follows = false; this.tell(); } else this.toEnd(); }

  /* Above the first line, without moving what is being read. */
  async loadEarlier() {
    const first = this.lines.querySelector(".l")?.dataset.key;
    if (!first || this.isLoading) return;
    this.isLoading = true;
    const address = new URL(this.box.dataset.earlier, location.href);
    address.searchParams.set("cursor", first);
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(answer.statusText);
      const made = document.createElement("template");
      made.innerHTML = await answer.text();
      const older = [...made.content.querySelectorAll(".l")].filter((one) => !this.seen.has(one.dataset.key));
      older.forEach((one) => this.seen.add(one.dataset.key));
      const height = this.lines.scrollHeight;
      this.earlier.after(...older);
      this.lines.scrollTop += this.lines.scrollHeight - height;
      if (!answer.headers.get("X-Rota-Earlier")) { this.earlier.remove(); this.earlier = null; }
    } catch {
      toast("Earlier lines could not be loaded");
    }
    this.isLoading = false;
  }

  tell() {
    const bar = this.box.querySelector("[data-tail-state]");
    const text = this.box.querySelector("[data-tail-text]");
    const seconds = Math.max(1, Math.ceil(((this.againAt ?? 0) - performance.now()) / 1000));
    const said =
      this.state === "over" ? (this.follows ? "Ended: no more lines" : "Held while you read") :
      this.state === "lost" && this.reason ? `Not connected: ${this.reason}; next try in ${seconds} s` :
      this.state === "lost" ? `Reconnecting, next try in ${seconds} s; no lines are lost` :
      this.state === "resting" ? "Paused while the tab is hidden" :
      this.state !== "connected" ? "Connecting" :
      this.follows ? "Connected, following" :
      this.unread ? `Held, ${this.unread} new line${this.unread === 1 ? "" : "s"} below` : "Held while you read; connected";
    bar.classList.toggle("over", this.state === "over");
    bar.classList.toggle("held", !["connected", "over"].includes(this.state) || !this.follows);
    if (text.textContent !== said) text.textContent = said;
    this.follow.hidden = this.follows;
  }
}

const tails = [];
function startTails(from = document) {
  for (const box of all("[data-tail]", from)) {
    if (!box.dataset.started) { box.dataset.started = "1"; tails.push(new Tail(box)); }
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "." && !event.ctrlKey && !event.target.closest("input, textarea, select, dialog[open]")) tails.forEach((one) => one.hold());
});
all("[data-wrap]").forEach((one) => { one.hidden = false; });
if (localStorage.getItem("rota-nowrap")) wrap(true);
startTails();
document.addEventListener("htmx:afterSwap", () => startTails());
