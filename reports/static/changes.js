// What changed since a baseline: findings by cause, and by case.
"use strict";

// The drawn graph and the values of the first cell, here and in the baseline's own report.
const cellAddress = (of, label, change) => caseAddress(of, { case: label, ...change.opsets.length ? { opset: change.opsets[0] } : {} });
const ACTIONS = { fail: FAILED, warn: KNOWN, ignore: NOT_COVERED };

orSay(document.getElementById("by-case"), Promise.all([load("changes"), load("search")]).then(([changes, { declarations }]) => {
  const places = new Map(declarations.flatMap(([kind, family, name, cases]) => cases.map((label) => [label, { kind, family, name }])));
  const named = (change) => {
    // `elu[alpha=0.5] float32`, or `elu[alpha=0.5] by torch_script`.
    const label = change.case.replace(/( by)? \S+$/, "");
    const of = places.get(label) ?? places.get(change.case);
    if (!of) return change.case || "the whole run";
    return h("a", { href: addressOf(of, label, change) }, change.case);
  };
  const addressOf = (of, label, change) => cellAddress(of, places.has(label) ? label : change.case, change);
  const { baseline } = document.getElementById("by-case").dataset;
  // The command that makes the first cell again, and its page in the report of the baseline, which has both there. Of a
  // case that this run does not have, the command that runs it.
  const further = (change) => {
    const label = change.case.replace(/( by)? \S+$/, "");
    const of = places.get(label) ?? places.get(change.case);
    const before = baseline && of && change.cell && !change.detail.startsWith("not in the baseline");
    return [
      before ? h("p", { class: "before" }, h("a", { href: `${baseline}/${addressOf(of, label, change)}` }, "The same cell in the baseline")) : null,
      change.cell ? command(of ? reproLine(change.cell) : `parity run ${change.file ? `${shellQuoted(change.file)} ` : ""}-k ${shellQuoted(label.split("[")[0])}`) : null,
    ];
  };
  // Numbers and what stands between brackets differ from case to case.
  const causeOf = (change) => change.detail.replace(/\([^)]*\)/g, "(…)").replace(/[-+]?\d+(\.\d+)?(e[-+]?\d+)?/g, "n");
  const causes = new Map();
  // What fails is first.
  const gravity = Object.keys(ACTIONS);
  changes.sort((one, other) => gravity.indexOf(one.action) - gravity.indexOf(other.action));
  for (const change of changes) {
    change.text = `${change.action} ${change.kind} ${change.case} ${change.detail}`;
    change.states = new Set([ACTIONS[change.action]]);
    const key = JSON.stringify([change.action, change.kind, causeOf(change)]);
    if (!causes.has(key)) causes.set(key, []);
    causes.get(key).push(change);
  }
  const outcome = (change) => cell([square(ACTIONS[change.action]), ` ${change.action}`]);
  const kinds = [...new Set(changes.map((change) => change.kind))];
  const filters = [{ key: "kind", name: "kind", values: kinds, holds: (row, kind) => row.kind === kind }];
  table(document.getElementById("by-cause"), {
    id: "causes-table", noun: "cause", caption: "Findings by cause",
    rows: [...causes.values()].map((all) => ({ ...all[0], all, cells: all.reduce((sum, each) => sum + each.cells, 0) })),
    columns: [
      { name: "action", key: (row) => row.action, show: outcome },
      { name: "kind", key: (row) => row.kind, show: (row) => h("th", { scope: "row" }, row.kind) },
      { name: "cells", class: "number", key: (row) => row.cells, show: (row) => numberCell(thousands(row.cells)) },
      { name: "cases", class: "number", key: (row) => row.all.length, show: (row) => numberCell(thousands(row.all.length)) },
      { name: "for example", show: (row) => cell([named(row), `: ${row.detail}`, further(row)], { class: "by" }) },
    ],
  });
  table(document.getElementById("by-case"), {
    id: "changes", noun: "finding", caption: "Findings by case", rows: changes, filters,
    columns: [
      { name: "action", key: (row) => row.action, show: outcome },
      { name: "kind", key: (row) => row.kind, show: (row) => cell(row.kind) },
      { name: "case", key: (row) => row.case, show: (row) => h("th", { scope: "row" }, named(row)) },
      { name: "opsets", key: (row) => row.opsets[0] ?? 0, show: (row) => cell(opsetRanges(row.opsets.filter(Boolean))) },
      { name: "cells", class: "number", key: (row) => row.cells, show: (row) => numberCell(thousands(row.cells)) },
      { name: "detail", show: (row) => cell([row.detail, further(row)], { class: "by" }) },
    ],
  });
}));
