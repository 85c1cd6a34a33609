// Enqueues through graphile-worker, by the commands of ../driver.py: node driver.mjs FOLDER, where npm has installed it.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { makeWorkerUtils } = createRequire(`${process.argv[2]}/`)("graphile-worker");
const MANY = 1_000;
const { error } = console;
console.log = error; // what the queue prints is not an answer
const utils = await makeWorkerUtils({ connectionString: process.env.FIELD_URL });

async function answer(call, what, first, count) {
  const began = performance.now();
  let done = 0;
  try {
    if (call === "prepare") await utils.migrate();
    for (; call === "enqueue" && done < count; done += 1) await utils.addJob("work", { what, number: first + done });
    while (call === "enqueue_many" && done < count) {
      const size = Math.min(MANY, count - done);
      const payloads = Array.from({ length: size }, (_, place) => ({ what, number: first + done + place }));
      await utils.addJobs(payloads.map((payload) => ({ identifier: "work", payload })));
      done += size;
    }
  } catch (raised) {
    return { done, seconds: (performance.now() - began) / 1000, error: String(raised) };
  }
  return { done, seconds: (performance.now() - began) / 1000 };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(...JSON.parse(line)))}\n`);
}
process.exit();
