// onnxruntime-web in headless Chromium, which is on PATH or named by the environment variable CHROMIUM.
//
// A server on this machine gives the page the package and the models; Chromium is told what to do through a pipe.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readModel } from "./pack.mjs";

export { endingOf, tensorsOnly } from "./tensors.mjs";
export const name = "onnxruntime-web in Chromium";
const HERE = dirname(fileURLToPath(import.meta.url));
let inPage;

// In the page: tensors as objects of JSON, whose bytes are in base64.
const PAGE = `
import * as ort from "/ort.wasm.min.mjs";
import { runOrt } from "/tensors.mjs";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = "/";
ort.env.logLevel = "error";
const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const text = (bytes) => btoa(Array.from(bytes, (each) => String.fromCharCode(each)).join(""));
globalThis.runModel = async (model, dataSets, inputs, outputs) => {
  const given = dataSets.map((set) => set.map((tensor) => ({ ...tensor, data: bytes(tensor.data) })));
  const results = await runOrt(ort, bytes(model), { executionProviders: ["wasm"] }, given, inputs, outputs);
  return results.map((set) => set.map((tensor) => ({ ...tensor, data: text(tensor.data) })));
};
globalThis.isReady = true;
`;

// A server of the package's files, and of the page that imports them.
async function serve(folder) {
  const kinds = { mjs: "text/javascript", wasm: "application/wasm", html: "text/html" };
  const server = createServer((request, response) => {
    const file = basename(new URL(request.url, "http://here").pathname);
    const path = resolve(file === "tensors.mjs" ? HERE : folder, file);
    const content = file === "page.html" ? `<script type="module">${PAGE}</script>` : existsSync(path) ? readFileSync(path) : null;
    response.writeHead(content === null ? 404 : 200, { "content-type": kinds[file.split(".").pop()] ?? "application/octet-stream" }).end(content);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return server.address().port;
}

// Chromium's answers to commands, by their numbers. If it or its page ends, so does this process, as a crash.
function start(chromium, profile) {
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
  const browser = spawn(chromium, [...flags, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  browser.on("error", (error) => { console.error(`Error: ${chromium}: ${error.message}`); process.exit(1); });
  browser.on("exit", () => process.exit(1));
  process.on("exit", () => { browser.kill("SIGKILL"); rmSync(profile, { recursive: true, force: true, maxRetries: 3 }); });
  const waiting = new Map();
  let rest = "", last = 0;
  browser.stdio[4].on("data", (text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop();
    for (const { id, result, error, method } of messages.map((message) => JSON.parse(message))) {
      if (method === "Inspector.targetCrashed" || method === "Target.targetCrashed") process.exit(1);
      waiting.get(id)?.(error ? { error } : result);
      waiting.delete(id);
    }
  });
  return (method, params = {}, sessionId = undefined) => new Promise((done) => {
    waiting.set(++last, done);
    browser.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
  });
}

export async function open({ modules }) {
  const folder = dirname(createRequire(resolve(modules, "package.json")).resolve("onnxruntime-web/wasm"));
  const port = await serve(folder);
  const send = start(process.env.CHROMIUM ?? "chromium", mkdtempSync(resolve(tmpdir(), "run-pack-")));
  const { targetId } = await send("Target.createTarget", { url: `http://127.0.0.1:${port}/page.html` });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  await send("Inspector.enable", {}, sessionId);
  inPage = async (expression) => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  while (!(await inPage("globalThis.isReady ?? false"))) await new Promise((done) => setTimeout(done, 50));
  return JSON.parse(readFileSync(resolve(folder, "../package.json"), "utf8")).version;
}

export async function run(model, dataSets, inputs, outputs) {
  const given = dataSets.map((set) => set.map((tensor) => ({ ...tensor, data: Buffer.from(tensor.data).toString("base64") })));
  const words = [Buffer.from(readModel(model)).toString("base64"), given, inputs, outputs].map((word) => JSON.stringify(word));
  const results = await inPage(`runModel(${words.join(", ")})`);
  return results.map((set) => set.map((tensor) => ({ ...tensor, data: Uint8Array.from(Buffer.from(tensor.data, "base64")) })));
}
