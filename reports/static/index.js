// The first page: grids of operators and models by opset.
"use strict";

for (const place of document.querySelectorAll("[data-called]")) {
  orSay(place, load("called").then((called) => {
    const rows = called.map((row) => {
      const squares = new Map(Object.entries(row.states).map(([opset, state]) => [Number(opset), { state, summary: FACES[state][1], reasons: [], more: 0 }]));
      const go = address.to("pytorch.html", { q: row.name });
      return { label: row.name, squares, since: rightSince(squares), cells: row.cells, declarations: row.by.length + row.more, go, goTo: () => go };
    });
    const opsets = [...new Set(rows.flatMap((row) => [...row.squares.keys()]))].sort((a, b) => a - b);
    grid(place, {
      id: "called", title: "Operators", noun: "operator", opsets, rows,
      last: { name: "declared", class: "number wide", title: "The declarations that call it", key: (row) => row.declarations, show: (row) => numberCell(thousands(row.declarations), { class: "wide" }) },
    });
  }));
}

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
    grid(place, { id: `${kind}s`, title: `${kind}s`, noun: "declaration", opsets, rows: mine });
  }));
}
