// How the pages write figures, opsets and outcomes, as reports/wording.py and reports/outcomes.py do.
"use strict";

// In the order of `State` in reports/outcomes.py, whose numbers the data has.
const STATES = ["crashed", "failed", "unexpected_pass", "known", "passed", "partly", "unsupported", "absent", "not_covered"];
const [CRASHED, FAILED, UNEXPECTED, KNOWN, PASSED, PARTLY, UNSUPPORTED, ABSENT, NOT_COVERED] = STATES.keys();
const FACES = [
  ["!", "crashed", "crashed", "the process that ran it ended"],
  ["×", "failed", "failed", "a stage failed"],
  ["?", "unexpected pass", "unexpected passes", "it passed, although an expectation predicts a failure"],
  ["~", "known failure", "known failures", "it failed, as an expectation predicts"],
  ["✓", "passed", "passed", "every cell that ran here passed"],
  ["◐", "passed in part", "passed in part", "some cells passed, the exporter does not support the others"],
  ["–", "unsupported", "unsupported", "the exporter does not support it, and gives a reason"],
  ["○", "absent", "absent", "it could not run here"],
  ["·", "not covered", "not covered", "this run has no such cell"],
];
const AXES = ["dtype", "device", "shapes", "capture", "exporter", "runtime"];
// As in reports/coverage.py: at which opsets ONNX got its younger dtypes.
const DTYPES_SINCE = { bfloat16: 13, float8_e4m3fn: 19, float8_e5m2: 19 };
const INFINITE = Number.MAX_VALUE;
const EXACT = 1e9;

const square = (state) => h("span", { class: `sq ${STATES[state]}`, "aria-hidden": "true" }, FACES[state][0]);
const thousands = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
const counted = (state, number) => `${thousands(number)} ${FACES[state][number === 1 ? 1 : 2]}`;

function inWords(counts) {
  return STATES.map((_, state) => counts[state] ? counted(state, counts[state]) : "").filter(Boolean).join(", ");
}

const exponent = (value) => value.toExponential(1).replace(/e([+-])(\d)$/, "e$10$2");
const notFinite = (value) => value === null ? "nan" : value > 0 ? "inf" : "-inf";
const isFinite_ = (value) => value !== null && Math.abs(value) < INFINITE;
const errorSize = (value) => !isFinite_(value) ? notFinite(value) : value ? exponent(value) : "0";
const plainNumber = (value) => isFinite_(value) ? String(Number(value.toPrecision(9))) : notFinite(value);

function ulps(value) {
  if (value === null) return "not equal";
  if (value >= INFINITE) return "inf";
  return value < 10 ? value.toFixed(1) : value < 1e6 ? thousands(Math.round(value)) : exponent(value);
}

// Where something must be equal and is not, such as an integer or a NaN, there is no error in units in the last place.
const largestUlps = (metrics) => metrics.headroom < 1 && metrics.ulp_max === 0 ? null : metrics.ulp_max;

function headroom(value) {
  if (value === null || value === undefined) return "";
  if (value >= EXACT) return "exact";
  if (value < 10) return value.toFixed(value >= 1 ? 2 : 4);
  return value < 1e5 ? thousands(Math.round(value)) : exponent(value);
}

function duration(seconds) {
  if (seconds >= 90) return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(1)} ms` : `${(seconds * 1e6).toFixed(0)} µs`;
}

// [7, 8, 9, 12] as "7–9, 12".
function opsetRanges(opsets) {
  const sorted = [...new Set(opsets)].sort((a, b) => a - b);
  const ranges = [];
  for (const opset of sorted) {
    const last = ranges.at(-1);
    if (last && last[1] === opset - 1) last[1] = opset; else ranges.push([opset, opset]);
  }
  return ranges.map(([first, last]) => first === last ? `${first}` : `${first}–${last}`).join(", ");
}

const shellQuoted = (text) => `'${text.replaceAll("'", `'"'"'`)}'`;
const quoted = (node) => /["$`\\!]/.test(node) ? shellQuoted(node) : `"${node}"`;
const pytestLine = ({ node, options }) => `pytest ${quoted(node)}${options ? ` ${options}` : ""}`;

// The state of several cells: the gravest, and never passed where one of them did not.
function aggregate(counts) {
  for (const state of [CRASHED, FAILED, UNEXPECTED, KNOWN]) if (counts[state]) return state;
  if (counts[PASSED]) return counts[UNSUPPORTED] ? PARTLY : PASSED;
  if (counts[UNSUPPORTED]) return UNSUPPORTED;
  return counts[ABSENT] ? ABSENT : NOT_COVERED;
}

const stageName = (stage) => stage.replaceAll("_", " ");
// What a value is sorted by: texts without regard to case, and the numbers in them by their size. A collator with these
// options takes a hundred times as long.
const sortKey = (value) => typeof value === "string" ? value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0")) : value;
const byName = (a, b) => { const [one, other] = [sortKey(a), sortKey(b)]; return one < other ? -1 : one > other ? 1 : 0; };

function command(line) {
  return h("p", { class: "command" }, h("code", {}, line), h("button", { type: "button", class: "copy", "data-copy": line }, "Copy"));
}

const reproLine = (cell) => `parity repro ${shellQuoted(cell)}`;

// What to do about a cell that is wrong, each with when it is the right thing.
function nextSteps({ node, where, state }) {
  const isTaken = state === FAILED && !/^(build|reference)/.test(where);
  const steps = [
    ["To report it, or to look at its model: write a folder with the model, its inputs, the expected outputs, and a script that needs nothing of this project.", reproLine(node)],
    isTaken ? ["A wrong result in a large program: find the first operator that diverges, with its module and source line.", `parity localise ${shellQuoted(node)}`] : null,
    isTaken ? ["An issue should have few lines: reduce the program to the few operators that still fail.", `parity reduce ${shellQuoted(node)}`] : null,
    ["It passed at an earlier commit, GOOD: find the commit that broke it.", `git bisect start HEAD GOOD && git bisect run pytest ${quoted(node)}`],
    [state === UNEXPECTED ? "The expectation holds no longer: see which entries go." : "It is someone else's fault, or cannot be fixed now: write it down as a known failure, with a reason and a link.", "parity expect"],
  ];
  return h("dl", {}, steps.filter(Boolean).map(([why, line]) => h("div", {}, h("dt", {}, why), h("dd", {}, command(line)))));
}

function whatNext(cell) {
  const element = h("details", { class: "next" }, h("summary", {}, "What next?"));
  element.addEventListener("toggle", () => { if (element.childElementCount < 2) element.append(nextSteps(cell)); });
  return element;
}

function bars(pairs) {
  const longest = Math.max(...pairs.map(([, seconds]) => seconds), 0) || 1;
  return h("dl", { class: "times" }, pairs.map(([name, seconds]) => {
    const bar = h("i");
    bar.style.width = `${(seconds / longest * 100).toFixed(1)}%`;
    return h("div", {}, h("dt", {}, name), h("dd", {}, duration(seconds)), h("dd", { "aria-hidden": "true" }, bar));
  }));
}
