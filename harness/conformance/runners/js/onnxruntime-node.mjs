// onnxruntime in Node: the package onnxruntime-node.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { runOrt } from "./tensors.mjs";

export { endingOf, tensorsOnly } from "./tensors.mjs";
export const name = "onnxruntime-node";
let ort;

// Load the runtime and say its version. `modules` is the folder with node_modules.
export async function open({ modules }) {
  const require = createRequire(resolve(modules, "package.json"));
  ort = require("onnxruntime-node");
  return JSON.parse(readFileSync(require.resolve("onnxruntime-node/package.json"), "utf8")).version;
}

export const run = (model, dataSets, inputs, outputs) =>
  runOrt(ort, model, { intraOpNumThreads: 1, logSeverityLevel: 3 }, dataSets, inputs, outputs);
