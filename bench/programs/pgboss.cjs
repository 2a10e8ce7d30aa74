// pg-boss with large batches, two fetchers a process, and LISTEN/NOTIFY.
"use strict";
const { PgBoss } = require("pg-boss");
const { mark, ready, enqueue } = require("./marks.cjs");

const JOB = "noop";
const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;

async function work(boss) {
  const options = {
    batchSize: 1000,
    localConcurrency: 2,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
  };
  await boss.work(JOB, options, async (jobs) => {
    for (const job of jobs) mark(job.data.n);
  });
  process.on("SIGTERM", () => boss.stop({ graceful: true }).then(() => process.exit(0)));
  ready();
}

async function main(command, ...words) {
  const boss = new PgBoss({
    host: PGHOST,
    port: Number(PGPORT || 5432),
    user: PGUSER,
    password: PGPASSWORD,
    database: PGDATABASE,
    max: 10,
    useListenNotify: command === "work",
  });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  if (command === "work") return work(boss);
  if (command === "prepare") {
    await boss.createQueue(JOB, { notify: true });
  } else {
    const answer = await enqueue(
      command,
      words,
      (n) => boss.send(JOB, { n }),
      (all) => boss.insert(JOB, all.map((n) => ({ data: { n } }))),
    );
    console.log(JSON.stringify(answer));
  }
  await boss.stop({ graceful: false });
  process.exit(0);
}

main(...process.argv.slice(2));
