// The page of operators that were traced and exported.
"use strict";

function declarationsOf(row) {
  return [row.by.map(([kind, family, name]) => [h("a", { href: caseAddress({ kind, family, name }) }, name), " "]), row.more ? h("small", {}, `and ${row.more} more`) : null];
}

const opsetCell = (opsets, attributes = {}) => cell(opsetRanges(opsets), attributes);

for (const place of document.querySelectorAll("[data-traced]")) {
  orSay(place, load("traced").then((all) => {
    const id = place.dataset.traced;
    const versioned = id === "onnx";
    const rows = all[id].map((row) => ({ ...row, label: row.domain ? `${row.domain}::${row.op}` : row.op }));
    for (const row of rows) row.text = `${row.label} ${row.by.map(([, , name]) => name).join(" ")}`;
    table(place, {
      id, rows, noun: versioned ? "version" : "operator", caption: versioned ? "ONNX operators" : "ATen operators",
      columns: [
        { name: "operator", key: (row) => row.label, show: (row) => h("th", { scope: "row" }, row.label) },
        ...versioned ? [{ name: "since version", class: "number", key: (row) => row.since, show: (row) => numberCell(String(row.since)) }] : [],
        { name: versioned ? "exported at opsets" : "traced at opsets", key: (row) => row.opsets[0] ?? 0, show: (row) => opsetCell(row.opsets) },
        { name: "passed at", key: (row) => row.passed[0] ?? 999, show: (row) => opsetCell(row.passed) },
        { name: "failed at", key: (row) => row.wrong[0] ?? 999, show: (row) => opsetCell(row.wrong, { class: row.wrong.length ? "low" : "" }) },
        { name: "cells", class: "number", key: (row) => row.cells, show: (row) => numberCell(thousands(row.cells)) },
        ...versioned ? [{ name: "nodes", class: "number", key: (row) => row.nodes, show: (row) => numberCell(thousands(row.nodes)) }] : [],
        { name: "declarations", show: (row) => cell(declarationsOf(row), { class: "by" }) },
      ],
    });
  }));
}
