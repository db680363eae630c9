// Exporters and runtimes beside each other, in all and by declaration.
"use strict";

orSay(document.getElementById("subjects"), load("subjects").then(({ subjects, endings, rows }) => {
  const place = document.getElementById("subjects");
  const sameRuntime = new Set(subjects.map(([, runtime]) => runtime)).size === 1;
  const sameExporter = new Set(subjects.map(([exporter]) => exporter)).size === 1;
  const names = subjects.map(([exporter, runtime]) => sameRuntime ? exporter : sameExporter ? runtime : `${exporter} → ${runtime}`);
  const alone = endings.length;
  const [RIGHT, SILENT, BROKEN, REFUSED] = endings.keys();
  const all = subjects.map((_, at) => [...endings, "alone right"].map((_, ending) => rows.reduce((sum, row) => sum + row.counts[at][ending], 0)));
  place.append(h("section", { "aria-labelledby": "all" }, h("h2", { id: "all" }, "In all ", h("small", {}, plural(rows.reduce((sum, row) => sum + row.points, 0), "point"))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "In all" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["subject", ...endings, "alone right"].map((name, at) => h("th", { scope: "col", class: at ? "number" : "" }, name)))),
      h("tbody", {}, all.map((counts, at) => h("tr", {}, h("th", { scope: "row" }, names[at]), counts.map((number, ending) => numberCell(thousands(number), { class: ending === SILENT && number ? "low" : "" })))))))));
  const stateOf = (counts) => counts[SILENT] ? FAILED : counts[BROKEN] ? CRASHED : counts[RIGHT] ? (counts[REFUSED] ? PARTLY : PASSED) : counts[REFUSED] ? UNSUPPORTED : ABSENT;
  const told = [...endings, "alone right"];
  for (const row of rows) {
    const [kind, family, name] = row.of;
    Object.assign(row, { label: name, text: `${name} ${family}`, states: new Set(row.counts.map(stateOf)), href: caseAddress({ kind, family, name }) });
  }
  const section = h("section", { "aria-labelledby": "each" }, h("h2", { id: "each" }, "By operator and model"));
  section.dataset.main = "beside";
  place.append(section);
  const which = (ending) => (row, name) => row.counts[names.indexOf(name)][ending] > 0;
  table(section, {
    id: "beside", noun: "row", caption: "Operators and models, and how each exporter and runtime did", rows,
    filters: [
      { key: "alone", name: "right alone", values: names, holds: which(alone) },
      { key: "silent", name: "silently wrong", values: names, holds: which(SILENT) },
    ],
    columns: [
      { name: "name", key: (row) => row.label, show: (row) => h("th", { scope: "row" }, h("a", { href: row.href }, row.label)) },
      { name: "points", class: "number", key: (row) => row.points, show: (row) => numberCell(thousands(row.points)) },
      ...names.map((name, at) => ({
        name, class: "number", key: (row) => row.counts[at][RIGHT] / row.points,
        show: (row) => {
          const words = told.map((ending, number) => row.counts[at][number] ? `${thousands(row.counts[at][number])} ${ending}` : "").filter(Boolean).join(", ");
          return numberCell([square(stateOf(row.counts[at])), ` ${thousands(row.counts[at][RIGHT])}`, row.counts[at][SILENT] ? h("span", { class: "low" }, ` ${thousands(row.counts[at][SILENT])} silently wrong`) : null], { title: words });
        },
      })),
    ],
  });
}));
