// A runtime's own command line. `--command "my-runtime {model} {inputs} {outputs}"` is called for each data set: with the
// file of the model, the folder with input_0.pb and so on, and an empty folder in which it writes output_0.pb and so on.
//
// It refuses a model by another exit code than 0. What it says last is the reason.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, resolve } from "node:path";
import { readValue } from "./pack.mjs";

export let name = "command";
let words;

class CommandError extends Error {}

export async function open({ command }) {
  words = command.split(" ").filter(Boolean);
  if (!words.includes("{model}")) throw new Error(`--command ${JSON.stringify(command)} has no {model}`);
  name = basename(words[0]);
  const told = spawnSync(words[0], ["--version"], { encoding: "utf8" });
  if (told.error) throw new Error(`${words[0]}: ${told.error.message}`);
  // Waivers are for versions: of "my-runtime 1.2.3 (built today)", this is 1.2.3.
  const line = told.stdout.trim().split("\n")[0];
  return line.match(/\d+(\.\d+)+[^\s,;()]*/)?.[0] ?? (line || "unknown");
}

const SAYS_SO = /not (yet )?(supported|implemented)|unsupported|unimplemented/i;

export function endingOf(error) {
  if (!(error instanceof CommandError)) return { result: "wrong", reason: error.message }; // no output, or none that can be read
  if (error.signal) return { result: "crashed", reason: `its process was ended by ${error.signal}` };
  return { result: SAYS_SO.test(error.message) ? "unsupported" : "refused", reason: error.message };
}

export async function run(model, dataSets, inputs, outputs, folders, test) {
  return folders.map((folder) => {
    const made = mkdtempSync(resolve(tmpdir(), "run-pack-"));
    try {
      const given = { "{model}": model, "{inputs}": folder, "{outputs}": made };
      const ended = spawnSync(words[0], words.slice(1).map((word) => given[word] ?? word), { encoding: "utf8" });
      if (ended.status !== 0) {
        const said = `${ended.stdout}\n${ended.stderr}`.trim().split("\n").pop();
        throw Object.assign(new CommandError(said || `exit code ${ended.status}`), { signal: ended.signal });
      }
      return test.outputs.map(({ type }, number) => readValue(`${made}/output_${number}.pb`, type));
    } finally {
      rmSync(made, { recursive: true });
    }
  });
}
