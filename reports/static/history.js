// How it has gone: a chart for each figure, and a table of the runs.
"use strict";

// Points in the order of their runs, each of which leads to its report.
function chart(title, runs, nameOf, figure, show) {
  const [width, height, edge] = [320, 110, 10];
  const values = runs.map(figure);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (at) => runs.length === 1 ? width / 2 : edge + at * (width - 2 * edge) / (runs.length - 1);
  const y = (value) => high === low ? height / 2 : height - edge - (value - low) * (height - 2 * edge) / (high - low);
  const points = runs.map((run, at) => {
    const label = `${nameOf(run)}: ${show(values[at])}`;
    const dot = svg("circle", { cx: x(at), cy: y(values[at]), r: 4 }, svg("title", {}, label));
    const shown = run.report ? svg("a", { href: run.report, "aria-label": label }, dot) : svg("g", { class: "this" }, dot);
    return shown;
  });
  const line = svg("polyline", { points: runs.map((_, at) => `${x(at)},${y(values[at])}`).join(" ") });
  // The first and the last point; the last one's figure stands above.
  const ends = runs.length > 1 ? h("p", { class: "ends", "aria-hidden": "true" }, h("span", {}, `${nameOf(runs[0])}: ${show(values[0])}`), h("span", {}, nameOf(runs.at(-1)))) : null;
  return h("figure", {}, h("figcaption", {}, title, h("b", {}, show(values.at(-1)))),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${title}, from ${show(values[0])} to ${show(values.at(-1))} over ${plural(runs.length, "run")}` }, line, ...points), ends);
}

const EVERY = "every tier";

orSay(document.getElementById("history"), load("history").then((runs) => {
  const place = document.getElementById("history");
  const passes = (run) => run.counts.passed ?? 0;
  const wrong = (run) => (run.counts.failed ?? 0) + (run.counts.crashed ?? 0) + (run.counts.unexpected_pass ?? 0);
  const figures = [
    ["passed", passes, thousands], ["wrong", wrong, thousands], ["cases", (run) => run.cases, thousands],
    ["cells whose error is over a tenth of the tolerance", (run) => run.close, thousands],
    ["milliseconds of a mean export", (run) => run.export, (value) => value.toFixed(2)],
    ["cells a second", (run) => run.cells_per_second, (value) => value.toFixed(0)],
  ];
  const tiers = [...new Set(runs.map((run) => run.tier))].sort();
  // What is one point: a run, or the last run of a day or of a version.
  const points = {
    run: (run) => run.id, day: (run) => run.started.slice(0, 10), torch: (run) => `torch ${run.packages.torch ?? "unknown"}`,
    onnxruntime: (run) => `onnxruntime ${run.packages.onnxruntime ?? "unknown"}`,
  };
  const section = h("section", { "aria-labelledby": "charts" }, h("h2", { id: "charts" }, "Charts ", h("small", {}, "each point leads to the report of its run")));
  const charts = h("div", { class: "charts" });
  const select = h("select", {}, h("option", {}, EVERY), tiers.map((tier) => h("option", {}, tier)));
  const by = h("select", {}, Object.keys(points).map((name) => h("option", {}, name)));
  const draw = () => {
    const nameOf = points[by.value];
    const ofTier = runs.filter((run) => select.value === EVERY || run.tier === select.value);
    const chosen = [...new Map(ofTier.map((run) => [nameOf(run), run])).values()];
    charts.replaceChildren(...(chosen.length ? figures.map(([title, figure, show]) => chart(title, chosen, nameOf, figure, show)) : []));
  };
  // Runs of different tiers have different cells: those of this run's tier are shown first.
  const own = runs.find((run) => run.id === place.dataset.run)?.tier ?? EVERY;
  for (const [choice, key, usual] of [[select, "tier", own], [by, "by", "run"]]) {
    choice.value = address.get(key) || usual;
    if (choice.selectedIndex < 0) choice.value = usual;
    choice.addEventListener("change", () => { address.set(key, choice.value === usual ? "" : choice.value); draw(); });
  }
  draw();
  section.append(h("p", { class: "tools" }, h("label", {}, "tier ", select), h("label", {}, "by ", by)), charts);
  const all = h("section", { "aria-labelledby": "runs" }, h("h2", { id: "runs" }, "Runs"));
  all.dataset.main = "runs-table";
  place.append(section, all);
  const rows = [...runs].reverse().map((run) => ({ ...run, states: new Set(), text: `${run.id} ${run.tier} ${run.commit} ${run.packages.torch ?? ""}` }));
  table(all, {
    id: "runs-table", noun: "run", rows, caption: "Table of runs",
    columns: [
      { name: "run", key: (row) => row.id, show: (row) => h("th", { scope: "row" }, row.report ? h("a", { href: row.report }, row.id) : row.id) },
      { name: "tier", key: (row) => row.tier, show: (row) => cell(row.tier) },
      { name: "torch", key: (row) => row.packages.torch ?? "", show: (row) => cell(row.packages.torch ?? "") },
      { name: "onnxruntime", key: (row) => row.packages.onnxruntime ?? "", show: (row) => cell(row.packages.onnxruntime ?? "") },
      { name: "commit", key: (row) => row.commit, show: (row) => cell(row.commit.slice(0, 10)) },
      ...figures.map(([name, figure, show]) => ({ name, class: "number", key: figure, show: (row) => numberCell(show(figure(row))) })),
    ],
  });
}));
