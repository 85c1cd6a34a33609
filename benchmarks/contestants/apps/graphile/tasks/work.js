// What a job does, as in ../handlers.py.
const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");

const path = process.env.FIELD_WITNESS;
const witness = (what, number) => fs.appendFileSync(path, `${what} ${number} ${process.hrtime.bigint()}\n`);
const witnessed = () => (fs.existsSync(path) ? fs.readFileSync(path, "ascii") : "");

module.exports = async ({ what, number }) => {
  if (what === "slow") {
    await sleep(5);
  } else if (what === "stamp") {
    witness(what, number);
  } else if (what === "killed") {
    await sleep(50);
    witness(what, number);
  } else if (what === "held") {
    const begunBefore = witnessed().includes(`held ${number} `);
    witness(what, number);
    if (!begunBefore) await sleep(3_600_000);
  } else if (what !== "noop") {
    throw new Error(`unknown job ${what}`);
  }
};
