// The first page: grids of operators and models by opset.
"use strict";

for (const place of document.querySelectorAll("[data-grid]")) {
  orSay(place, load("coverage").then(({ opsets, rows, reasons, summaries }) => {
    const kind = place.dataset.grid;
    const mine = rows.filter((row) => row.kind === kind).map((row) => {
      const squares = new Map(row.opsets.map((opset, at) => [opset, {
        state: row.states[at], some: Boolean(row.some[at]), summary: summaries[row.summary[at]],
        reasons: row.reasons[at].map((number) => reasons[number]), more: row.more[at],
      }]));
      const of = { name: row.name, family: row.family, kind };
      return {
        label: row.name, group: row.family, text: `${row.name} ${row.family} ${row.search}`, squares, since: row.since,
        cells: row.cells, headroom: row.headroom, go: caseAddress(of), goTo: (opset) => caseAddress(of, { opset }),
      };
    });
    grid(place, { id: `${kind}s`, title: `${kind}s`, noun: kind, opsets, rows: mine });
  }));
}
