// A graphile-worker process: node graphile.mjs FOLDER URL. FOLDER is where graphile-worker is installed.
// Says that it is ready, waits for a line of input, then says again and again how many jobs it has handled.
import { createRequire } from "node:module";

const [folder, connectionString] = process.argv.slice(2);
const { run, runMigrations, Logger } = createRequire(`${folder}/`)("graphile-worker");
const logger = new Logger(() => () => {});
let handled = 0;
let reported = 0;

const preset = {
  worker: {
    connectionString,
    concurrentJobs: 24,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

await runMigrations({ connectionString, logger });
process.stdin.on("end", () => process.exit()); // the process that started it is gone
process.stdout.write("ready\n");
await new Promise((resolve) => process.stdin.once("data", resolve));
setInterval(() => {
  if (handled > reported) {
    process.stdout.write(`${handled - reported}\n`);
    reported = handled;
  }
}, 5);
await run({
  preset,
  logger,
  noHandleSignals: true,
  taskList: { noop: async () => void (handled += 1) },
});
