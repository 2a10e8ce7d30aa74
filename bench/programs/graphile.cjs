// Graphile Worker at the settings of its own performance page.
"use strict";
const { Pool } = require("pg");
const { makeWorkerUtils, run } = require("graphile-worker");
const { Logger } = require("@graphile/logger");
const { mark, ready, enqueue } = require("./marks.cjs");

const CONCURRENCY = 24;
const POOL = 25;
const quiet = new Logger(() => () => {});

const preset = {
  worker: {
    concurrentJobs: CONCURRENCY,
    maxPoolSize: POOL,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

async function work(pgPool) {
  const taskList = { noop: async ({ n }) => mark(n) };
  const runner = await run({ pgPool, preset, taskList, logger: quiet, noHandleSignals: true });
  process.on("SIGTERM", () => runner.stop().then(() => process.exit(0)));
  ready();
  await runner.promise;
}

async function main(command, ...words) {
  const pgPool = new Pool({ max: POOL });
  pgPool.on("error", () => {});
  if (command === "work") return work(pgPool);
  const utils = await makeWorkerUtils({ pgPool, logger: quiet });
  if (command === "prepare") {
    await utils.migrate();
  } else {
    const answer = await enqueue(
      command,
      words,
      (n) => utils.addJob("noop", { n }),
      (all) => utils.addJobs(all.map((n) => ({ identifier: "noop", payload: { n } }))),
    );
    console.log(JSON.stringify(answer));
  }
  await utils.release();
  await pgPool.end();
}

main(...process.argv.slice(2));
