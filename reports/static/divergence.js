// The page of divergence: the compared cells that are closest to failing.
"use strict";

const rowsPlace = document.getElementById("rows");
if (rowsPlace) {
  orSay(rowsPlace, load("divergence").then((all) => {
    const rows = all.map((row) => {
      const [kind, family, name] = row.of;
      const href = caseAddress({ kind, family, name }, { case: row.case });
      return { ...row, href, text: `${row.case} ${family} ${row.variant.join(" ")}` };
    });
    const number = (name, get, show, title) => ({
      name, title, class: "number", key: (row) => get(row.metrics) ?? Infinity, show: (row) => numberCell(show(get(row.metrics))),
    });
    table(rowsPlace, {
      id: "divergence", noun: "row", rows,
      caption: "Compared cells by headroom. Opsets at which a cell has identical results share a row.",
      filters: [{ key: "opset", name: "opset", values: [...new Set(rows.flatMap((row) => row.opsets))].sort((a, b) => a - b), holds: (row, opset) => row.opsets.includes(Number(opset)) }],
      columns: [
        { name: "headroom", class: "number", key: (row) => row.metrics.headroom, show: (row) => numberCell(headroom(row.metrics.headroom), { class: row.metrics.headroom < 1 ? "low" : "" }) },
        { name: "case", key: (row) => row.case, show: (row) => h("th", { scope: "row" }, square(row.state), h("a", { href: row.href, title: row.case }, row.case)) },
        { name: "opsets", key: (row) => row.opsets[0], show: (row) => cell(opsetRanges(row.opsets)) },
        { name: "variant", key: (row) => row.variant.join(" "), show: (row) => cell(row.variant.slice(0, 3).join(" · "), { class: "soft", title: row.variant.join(" · ") }) },
        number("max abs", (m) => m.max_abs, errorSize),
        number("max rel", (m) => m.max_rel, errorSize),
        number("max ULPs", largestUlps, ulps, "The largest error in units in the last place"),
        number("tolerance", (m) => m.tolerance, errorSize),
        { name: "worst at", title: "Which output, and where in it", show: (row) => cell(`${row.metrics.output}${row.metrics.index.length ? ` (${row.metrics.index.join(", ")})` : ""}`, { class: "soft" }) },
        { name: "runtime", class: "number", show: (row) => numberCell(plainNumber(row.metrics.got)) },
        { name: "expected", class: "number", show: (row) => numberCell(plainNumber(row.metrics.expected)) },
      ],
    });
  }));
}
