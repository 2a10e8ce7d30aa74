// What a body tells the bench, as in marks.py.
"use strict";
const fs = require("node:fs");

const path = process.env.BENCH_MARKS;
const fd = path ? fs.openSync(path, "w") : -1;
const limit = process.env.BENCH_STAMPS ? Number.MAX_SAFE_INTEGER : 0;

// Wall-clock nanoseconds; Date.now() would give milliseconds only.
const nanoseconds = () => Math.round((performance.timeOrigin + performance.now()) * 1e6);

const mark = (n) => {
  if (n <= limit) fs.writeSync(fd, `${n} ${nanoseconds()}\n`);
};
const ready = () => fs.writeSync(fd, "ready\n");

// The n of a bulk: the last one says that it is the last.
const numbers = (count) => Array.from({ length: count }, (_, n) => (n === count - 1 ? -1 : n));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// So many a second, a part of them every 100 ms.
async function steady(rate, seconds, addMany) {
  const started = performance.now();
  let runs = 0;
  for (let step = 0; step < seconds * 10; step++) {
    await sleep(Math.max(0, started + step * 100 - performance.now()));
    const part = Math.floor((rate * (step + 1)) / 10) - Math.floor((rate * step) / 10);
    await addMany(Array.from({ length: part }, (_, n) => n + 1));
    runs += part;
  }
  return { runs, seconds: (performance.now() - started) / 1000 };
}

// The commands that are alike for all: `add(n)` enqueues one run, `addMany([n, …])` many.
async function enqueue(command, words, add, addMany) {
  const count = Number(words[0]);
  if (command === "one") {
    for (let n = 1; n <= 200; n++) await add(n);
    const started = performance.now();
    for (let n = 1; n <= count; n++) await add(n);
    return { seconds: (performance.now() - started) / 1000 };
  }
  if (command === "bulk") {
    const started = performance.now();
    await addMany(numbers(count));
    return { seconds: (performance.now() - started) / 1000 };
  }
  if (command === "steady") return steady(count, Number(words[1]), addMany);
  const sent = [];
  for (let n = 0; n < count; n++) {
    await add(n);
    sent.push(nanoseconds());
    await sleep(Number(words[1]));
  }
  return { sent };
}

module.exports = { mark, ready, enqueue };
