// onnxruntime as WebAssembly, in Node: the package onnxruntime-web.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readModel } from "./pack.mjs";
import { runOrt } from "./tensors.mjs";

export { endingOf, tensorsOnly } from "./tensors.mjs";
export const name = "onnxruntime-web";
let ort;

export async function open({ modules }) {
  const require = createRequire(resolve(modules, "package.json"));
  const folder = dirname(require.resolve("onnxruntime-web/wasm"));
  ort = await import(pathToFileURL(resolve(folder, "ort.node.min.mjs")));
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  return JSON.parse(readFileSync(resolve(folder, "../package.json"), "utf8")).version;
}

export const run = (model, dataSets, inputs, outputs) =>
  runOrt(ort, readModel(model), { executionProviders: ["wasm"] }, dataSets, inputs, outputs);
