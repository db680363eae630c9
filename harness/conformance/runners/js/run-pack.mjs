// Runs the tests of a conformance pack with a runtime, in a process that is begun again when it ends, and writes a
// submission.
//
//     node run-pack.mjs my-pack my-submission --runtime onnxruntime-node --modules . --list core
//
// Exit codes: 0 if nothing is wrong, crashes or hangs; 1 if something is; 2 if nothing could be run.

import { fork } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { arch, platform } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { judge, readPack, readValue, writeValue } from "./pack.mjs";

const OPTIONS = {
  runtime: { type: "string", default: "onnxruntime-node" }, // the file of an adapter here, or a path of another one
  modules: { type: "string", default: "." }, // the folder with node_modules
  command: { type: "string", default: "" }, // what the adapter `command` runs
  list: { type: "string", default: "core" },
  id: { type: "string", short: "k", default: "*" },
  operator: { type: "string" },
  type: { type: "string" },
  opset: { type: "string" },
  timeout: { type: "string", default: "60" }, // seconds
  outputs: { type: "boolean", default: false }, // keep the outputs, to be judged by parity judge
};

function refuse(message) {
  console.error(message);
  process.exit(2);
}

const adapterOf = (name) => import(name.includes("/") ? new URL(name, `file://${process.cwd()}/`) : `./${name}.mjs`);

// --- in the process that runs tests -----------------------------------------------------------------------------------

async function serve(pack, submission, options) {
  const adapter = await adapterOf(options.runtime);
  process.send({ version: await adapter.open(options), name: adapter.name });
  process.on("message", async (test) => process.send(await runTest(adapter, pack, submission, test, options)));
  process.on("disconnect", () => process.exit());
}

async function runTest(adapter, pack, submission, test, options) {
  const unknown = [...test.inputs, ...test.outputs].some((value) => !value.type.startsWith("tensor("));
  if (unknown && adapter.tensorsOnly) return { result: "absent", reason: `the API of ${adapter.name} has tensors only` };
  const folders = Array.from({ length: test.data_sets }, (_, number) => `${pack}/${test.folder}/test_data_set_${number}`);
  let dataSets;
  try {
    dataSets = folders.map((folder) => test.inputs.map(({ type }, number) => readValue(`${folder}/input_${number}.pb`, type)));
  } catch (error) {
    return { result: "absent", reason: error.message };
  }
  const names = (values) => values.map((value) => value.name);
  let results;
  try {
    results = await adapter.run(`${pack}/${test.folder}/${test.model}`, dataSets, names(test.inputs), names(test.outputs), folders, test);
  } catch (error) {
    return adapter.endingOf(error);
  }
  if (options.outputs)
    results.forEach((outputs, set) => {
      const folder = `${submission}/outputs/${test.id}/test_data_set_${set}`;
      mkdirSync(folder, { recursive: true });
      outputs.forEach((output, number) => writeFileSync(`${folder}/output_${number}.pb`, writeValue(output, test.outputs[number].type)));
    });
  try {
    for (const [set, outputs] of results.entries())
      for (const [number, described] of test.outputs.entries()) {
        const difference = judge(outputs[number], folders[set], number, described);
        if (difference) return { result: "wrong", reason: difference };
      }
  } catch (error) {
    return { result: "absent", reason: error.message }; // a file of the pack cannot be read
  }
  return { result: "right", reason: "" };
}

// --- in the process that is called ------------------------------------------------------------------------------------

// A process that runs tests, for as long as it lives. The next message of it, or how it ended, is what is waited for.
class Worker {
  constructor(words) {
    this.child = fork(fileURLToPath(import.meta.url), [...words, "--serve"], { stdio: ["ignore", "ignore", "pipe", "ipc"], serialization: "advanced" });
    this.lives = true;
    this.ended = new Promise((done) => this.child.on("exit", (code, signal) => {
      this.lives = false;
      done({ result: "crashed", reason: `its process ended with ${signal ?? `code ${code}`}` });
    }));
    this.said = "";
    this.child.stderr.on("data", (text) => (this.said = (this.said + text).slice(-1000)));
  }

  async answer(seconds) {
    let timer;
    const late = new Promise((done) => (timer = setTimeout(done, seconds * 1000)));
    const message = new Promise((done) => this.child.once("message", done));
    const found = await Promise.race([message, this.ended, late]);
    clearTimeout(timer);
    if (found) return found;
    this.child.kill("SIGKILL");
    await this.ended;
    return { result: "hung", reason: `it did not end within ${seconds} s` };
  }
}

const matches = (pattern, text) =>
  new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`).test(text);

function isWanted(test, { list, id, operator, type, opset }) {
  return test.lists.includes(list) && matches(id, test.id) && (!operator || operator in test.operators)
    && (!type || test.types.includes(type)) && (!opset || String(test.opset) === opset);
}

// The results of an earlier call, by id. A last line that was cut off is taken away.
function readEarlier(submission, digest) {
  const [about, results] = [`${submission}/submission.json`, `${submission}/results.jsonl`];
  if (!existsSync(results)) return {};
  if (!existsSync(about)) refuse(`${submission} has no submission.json, but results. Name a new folder.`);
  if (JSON.parse(readFileSync(about, "utf8")).pack !== digest) refuse(`${submission} was made with another pack.`);
  const text = readFileSync(results);
  const whole = text.lastIndexOf("\n") + 1;
  if (whole < text.length) truncateSync(results, whole);
  return Object.fromEntries(text.subarray(0, whole).toString("utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)).map((line) => [line.id, line.result]));
}

async function begin(words, options) {
  const worker = new Worker(words);
  const ready = await worker.answer(Math.max(60, Number(options.timeout))); // to load the runtime
  if (!ready.version) refuse(`${options.runtime} cannot be run: ${worker.said.split("\n").find((line) => /^\w*Error/.test(line)) ?? ready.reason}`);
  return [worker, ready];
}

async function main(pack, submission, options, words) {
  let found;
  try {
    found = readPack(pack);
  } catch (error) {
    refuse(error.message);
  }
  const tests = found.tests.filter((test) => isWanted(test, options));
  if (!tests.length) refuse(`No test of ${pack} was selected.`);
  const earlier = readEarlier(submission, found.digest);
  let [worker, { name, version }] = await begin(words, options);
  mkdirSync(submission, { recursive: true });
  writeFileSync(`${submission}/submission.json`, JSON.stringify({
    format: "onnx-parity-submission", version: 1, pack: found.digest, runtime: { name, version }, platform: `${platform()} ${arch()}`,
    runner: "js 1", list: options.list, started: new Date().toISOString(),
    again: `node run-pack.mjs PACK OUT --runtime ${options.runtime}${options.command && ` --command '${options.command}'`}`,
  }) + "\n");
  const counts = {};
  for (const test of tests) {
    let result = earlier[test.id];
    if (!result) {
      if (!worker.lives) [worker] = await begin(words, options);
      const start = performance.now();
      worker.child.send(test);
      const answer = await worker.answer(Number(options.timeout));
      result = answer.result;
      appendFileSync(`${submission}/results.jsonl`, JSON.stringify({ id: test.id, ...answer, seconds: (performance.now() - start) / 1000 }) + "\n");
    }
    counts[result] = (counts[result] ?? 0) + 1;
  }
  if (worker.lives) worker.child.disconnect();
  const grave = ["wrong", "crashed", "hung"].reduce((sum, each) => sum + (counts[each] ?? 0), 0);
  console.log(`${name} ${version}: ${tests.length} tests, ${counts.right ?? 0} right, ${grave} wrong, crashed or hung, ${tests.length - (counts.right ?? 0) - grave} refused, unsupported or absent`);
  process.exitCode = grave || !counts.right ? 1 : 0;
}

const words = process.argv.slice(2).filter((word) => word !== "--serve");
let given;
try {
  given = parseArgs({ args: words, options: OPTIONS, allowPositionals: true });
} catch (error) {
  refuse(error.message);
}
const [pack, submission] = given.positionals;
if (!submission) refuse("usage: node run-pack.mjs PACK SUBMISSION [--runtime NAME] [--modules FOLDER] [--list NAME] [-k PATTERN]");
if (!(Number(given.values.timeout) > 0)) refuse("--timeout needs a number of seconds.");
if (process.argv.includes("--serve")) await serve(pack, submission, given.values);
else await main(pack, submission, given.values, words).catch((error) => refuse(error.code ? `${submission}: ${error.message}` : error.stack)); // such as a full disk
