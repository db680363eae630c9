// The page of a declaration, with a grid of its cases, and of one of its cases, with every cell.
"use strict";

const WRONG = new Set([CRASHED, FAILED, UNEXPECTED]);
const view = document.getElementById("view");

async function render() {
  const asked = address.read();
  const of = { name: asked.get("name") ?? "", family: asked.get("family") ?? "", kind: asked.get("kind") ?? "" };
  const { rows, opsets } = await load("coverage");
  const row = rows.find((each) => each.name === of.name && each.family === of.family && each.kind === of.kind);
  if (!row) {
    view.replaceChildren(h("h1", {}, "Not in this run"), h("p", { class: "scope" }, of.name ? `This run has no ${of.kind || "case"} called ${of.name}.` : "The address names no case."));
    document.title = "Not in this run · ONNX Parity";
    return;
  }
  const declaration = (await load(`cases-${row.piece}`)).find((each) => each.name === of.name && each.family === of.family && each.kind === of.kind);
  const label = asked.get("case") ?? (declaration.cases.length === 1 ? declaration.cases[0].case : "");
  const data = declaration.cases.find((each) => each.case === label);
  document.title = `${data ? data.case : declaration.name} · ONNX Parity`;
  view.replaceChildren();
  if (data) showCase(declaration, data, asked); else showDeclaration(declaration, opsets);
}

// The cells of a case as objects, made when they are needed.
function cellsOf(data) {
  data.cells ??= data.opset.map((opset, at) => {
    const [id, node, whole, options] = data.ids[data.id[at]];
    const fill = (text) => whole ? text.replace("-opset{}-", `-opset${opset}-`) : text;
    const [reason, link, error] = data.reasons[data.reason[at]];
    const [onnx, nodes] = data.emissions[data.emission[at]];
    const seconds = Object.entries(data.microseconds).filter(([, all]) => all[at]).map(([stage, all]) => [stageName(stage), all[at] / 1e6]);
    return {
      at, opset, id: fill(id), node: fill(node), options, state: data.status[at], where: data.wheres[data.where[at]], reason, link, error,
      variant: data.variant[at], dtype: data.variants[data.variant[at]][0], metrics: data.metrics[data.metric[at]], onnx, nodes, seconds,
      message: data.messages[data.message[at]], bundle: data.bundles[data.bundle[at]], case: data.case,
    };
  });
  return data.cells;
}

const tally = (cells) => cells.reduce((counts, one) => { counts[one.state] = (counts[one.state] ?? 0) + 1; return counts; }, {});

function squaresOf(cells, severalCases) {
  const byOpset = Map.groupBy ? Map.groupBy(cells, (one) => one.opset) : cells.reduce((map, one) => map.set(one.opset, [...map.get(one.opset) ?? [], one]), new Map());
  return new Map([...byOpset].map(([opset, some]) => {
    const counts = tally(some);
    const inONNX = some.filter((one) => one.state !== UNSUPPORTED || opset >= (DTYPES_SINCE[one.dtype] ?? 0));
    const state = aggregate(inONNX.length ? tally(inONNX) : counts);
    const reasons = new Map();
    for (const one of some) {
      if (one.state === PASSED) continue;
      const key = JSON.stringify([one.state, one.where, one.reason]);
      reasons.set(key, (reasons.get(key) ?? new Set()).add(one.case));
    }
    const listed = [...reasons].sort(([a], [b]) => JSON.parse(a)[0] - JSON.parse(b)[0]).map(([key, cases]) => {
      const [which, where, text] = JSON.parse(key);
      return [which, where, severalCases ? (cases.size === 1 ? [...cases][0] : plural(cases.size, "case")) : "", text];
    });
    return [opset, { state, summary: inWords(counts), some: Boolean(counts[ABSENT]) && state !== ABSENT, reasons: listed.slice(0, 5), more: Math.max(0, listed.length - 5) }];
  }));
}

function gridRow(label, cells, go, goTo) {
  const squares = squaresOf(cells, false);
  const rooms = cells.filter((one) => one.metrics).map((one) => one.metrics.headroom);
  return { label, squares, since: rightSince(squares), cells: cells.length, headroom: rooms.length ? Math.min(...rooms) : null, go, goTo };
}

function section(id, title, note, ...content) {
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title, note ? [" ", h("small", {}, note)] : null), content);
}

function heading(declaration, name, scope) {
  const up = declaration.cases.length > 1 && name !== declaration.name
    ? [" · ", h("a", { href: caseAddress(declaration) }, declaration.name)] : null;
  return h("section", { class: "head" },
    h("p", { class: "eyebrow" }, h("a", { href: `index.html#${declaration.kind}s` }, `${declaration.kind}s`), ` · ${declaration.family}`, up),
    h("h1", { class: "mono" }, name), h("p", { class: "scope" }, scope));
}

function showDeclaration(declaration, opsets) {
  const all = declaration.cases.flatMap(cellsOf);
  const place = section("cases-title", "Cases", "by opset");
  view.append(heading(declaration, declaration.name,
    [`${plural(declaration.cases.length, "case")}: ${inWords(tally(all))}. Declared at `, h("code", {}, `${declaration.file}:${declaration.line}`), "."]),
    source(declaration), place);
  grid(place, {
    id: "cases", title: "Cases", noun: "case", opsets: opsets.filter((opset) => all.some((one) => one.opset === opset)), opsetAnchors: true,
    rows: declaration.cases.map((data) => gridRow(data.case, cellsOf(data), caseAddress(declaration, { case: data.case }),
      (opset) => caseAddress(declaration, { case: data.case, opset }))),
  });
  showOutcomes(declaration, all.filter((one) => one.state !== ABSENT), true);
}

// Cells that did not pass, a fault once and not for every opset.
function showOutcomes(declaration, cells, withCase) {
  const groups = new Map();
  for (const one of cells) {
    if (one.state === PASSED) continue;
    const key = JSON.stringify([one.state, one.case, one.where]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(one);
  }
  if (!groups.size) return;
  const list = [...groups.values()].sort(([a], [b]) => a.state - b.state).map((some) => {
    const [first] = some;
    const others = new Set(some.map((one) => one.reason)).size - 1;
    return h("li", { class: `outcome ${STATES[first.state]}` },
      h("p", { class: "what" }, square(first.state), withCase ? h("a", { class: "name", href: caseAddress(declaration, { case: first.case }) }, first.case) : null,
        h("b", {}, FACES[first.state][1]), first.state === ABSENT ? "" : ` at ${first.where} `,
        h("span", { class: "cells" }, `${plural(some.length, "cell")}, opset${some.length === 1 ? "" : "s"} ${opsetRanges(some.map((one) => one.opset))}`)),
      first.reason ? h("p", { class: "why" }, first.reason, " ", first.link ? linkTo(first.link) : null) : null,
      others ? h("p", { class: "axes" }, `and ${plural(others, "other reason")}`) : null,
      first.message ? h("details", {}, h("summary", {}, `The whole message${some.length > 1 ? " of the first cell" : ""}`), h("pre", {}, first.message)) : null,
      first.state === ABSENT ? null : command(pytestLine(first)), WRONG.has(first.state) ? whatNext(first) : null);
  });
  view.append(section("outcomes", "Cells that did not pass", "", h("ol", { class: "outcomes" }, list)));
}

function source(declaration) {
  if (!declaration.source) return null;
  return section("source", "Declaration", `${declaration.file}:${declaration.line}`, h("pre", { class: "source", tabindex: "0" }, h("code", {}, declaration.source)));
}

function showCase(declaration, data, asked) {
  const cells = cellsOf(data);
  const differing = AXES.map((_, axis) => axis).filter((axis) => new Set(data.variants.map((variant) => variant[axis])).size > 1);
  const labels = data.variants.map((variant) => differing.map((axis) => variant[axis]).join(" · ") || "every cell");
  const shared = AXES.map((axis, number) => [axis, number]).filter(([, number]) => !differing.includes(number))
    .map(([axis, number], place) => [place ? ", " : "; every cell: ", `${axis} `, h("code", {}, data.variants[0][number])]);
  view.append(heading(declaration, data.case, [`${inWords(tally(cells))}. Declared at `, h("code", {}, `${declaration.file}:${declaration.line}`), shared, "."]));
  if (declaration.calls.length) view.append(h("p", { class: "traced" }, declaration.calls.map((name) => [h("a", { href: address.to("pytorch.html", { q: name }) }, h("code", {}, name)), " "])));
  const opsets = [...new Set(cells.map((one) => one.opset))].sort((a, b) => a - b);
  const byVariant = data.variants.map((_, number) => cells.filter((one) => one.variant === number));
  const to = (number) => (opset) => caseAddress(declaration, { case: data.case, variant: number, opset });
  const place = section("variants-title", "Cells", "by opset");
  view.append(place);
  grid(place, {
    id: "variants", title: "Cells", noun: "variant", opsets, opsetAnchors: true,
    rows: byVariant.map((some, number) => gridRow(labels[number], some, caseAddress(declaration, { case: data.case, variant: number }), to(number))),
  });
  showOutcomes(declaration, cells, false);
  const drawn = section("drawing", "Graph", "the recorded program as it was exported");
  view.append(drawn);
  showDrawing(declaration, data, drawn);
  view.append(...[source(declaration), operators(data, cells, labels), everyCell(declaration, data, byVariant, labels, asked)].filter(Boolean));
  const totals = new Map();
  for (const one of cells) for (const [stage, seconds] of one.seconds) totals.set(stage, (totals.get(stage) ?? 0) + seconds);
  if (totals.size) view.append(section("time", "Time by stage", "over its cells", bars([...totals])));
  view.querySelector("details.cell[open]")?.scrollIntoView({ block: "center" });
}

// One row for each distinct set of operators, and what of it is not in the row before.
function operators(data, cells, labels) {
  const alike = new Map();
  for (const one of cells) {
    if (!one.onnx.length) continue;
    const uses = [...one.onnx].sort((a, b) => byName(`${a.domain ?? ""}${a.op}`, `${b.domain ?? ""}${b.op}`));
    const key = JSON.stringify(uses);
    if (!alike.has(key)) alike.set(key, { uses, cells: [] });
    alike.get(key).cells.push(one);
  }
  const aten = [...new Set(data.aten.flat())];
  if (!aten.length && !alike.size) return null;
  const exported = new Set(cells.filter((one) => one.onnx.length).map((one) => one.variant));
  const named = (use) => `${use.domain ?? ""}::${use.op}@${use.since_version}x${use.count ?? 1}`;
  let before = null;
  const rows = [...alike.values()].sort((a, b) => Math.min(...a.cells.map((c) => c.opset)) - Math.min(...b.cells.map((c) => c.opset))).map(({ uses, cells: some }) => {
    const here = new Set(some.map((one) => one.variant));
    const old = before;
    before = new Set(uses.map(named));
    return h("tr", {},
      h("th", { scope: "row" }, opsetRanges(some.map((one) => one.opset)), here.size === exported.size ? null : h("small", {}, ` ${[...here].map((number) => labels[number]).join("; ")}`)),
      h("td", { class: "number" }, [...new Set(some.map((one) => one.nodes))].join(", ")),
      h("td", {}, uses.map((use) => [h(old && !old.has(named(use)) ? "ins" : "span", { class: "use" }, use.domain ? `${use.domain}::` : "", use.op, h("sub", {}, String(use.since_version)), (use.count ?? 1) > 1 ? ` ×${use.count}` : ""), " "])));
  });
  return section("graph", "Traced and exported operators", rows.length > 1 ? "underlined: not in the row above" : "",
    aten.length ? h("p", { class: "traced" }, aten.map((name) => [h("code", {}, name), " "])) : null,
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Exported operators" }, h("table", { class: "plain emitted" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "opsets"), h("th", { scope: "col", class: "number" }, "nodes"), h("th", { scope: "col" }, "ONNX operators with their versions"))),
      h("tbody", {}, rows))) : null);
}

function metricsOf(metrics) {
  const at = metrics.index.length ? ` at (${metrics.index.join(", ")})` : "";
  return [
    ["headroom", headroom(metrics.headroom)], ["tolerance", errorSize(metrics.tolerance)], ["max abs error", errorSize(metrics.max_abs)],
    ["max rel error", errorSize(metrics.max_rel)], ["ULPs p50 / p99 / max", largestUlps(metrics) === null ? ulps(null) : [metrics.ulp_p50, metrics.ulp_p99, metrics.ulp_max].map(ulps).join(" / ")],
    ["worst element", `output ${metrics.output}${at}`], ["runtime's value", plainNumber(metrics.got)], ["expected", plainNumber(metrics.expected)],
  ];
}

function everyCell(declaration, data, byVariant, labels, asked) {
  const [wantedVariant, wantedOpset] = [asked.get("variant"), asked.get("opset")];
  const variants = byVariant.map((cells, number) => {
    const counts = tally(cells);
    const allRight = (counts[PASSED] ?? 0) + (counts[ABSENT] ?? 0) === cells.length;
    const wanted = wantedVariant === String(number);
    const list = h("details", { class: "variant", open: byVariant.length === 1 || !allRight || wanted },
      h("summary", {}, h("b", {}, labels[number]), " ", h("span", {}, inWords(counts))));
    const fill = () => {
      if (list.childElementCount > 1) return;
      list.append(...cells.map((one) => oneCell(declaration, data, one, (wanted || byVariant.length === 1) && wantedOpset === String(one.opset))));
    };
    list.addEventListener("toggle", () => { if (list.open) fill(); });
    if (list.open) fill();
    return list;
  });
  return section("cells", "Every cell", "", variants, data.more_messages
    ? h("p", { class: "note" }, `${plural(data.more_messages, "more message")} are not in this report. parity query --json prints them.`) : null);
}

function oneCell(declaration, data, one, open) {
  const took = one.seconds.reduce((sum, [, seconds]) => sum + seconds, 0);
  const element = h("details", { class: "cell", open },
    h("summary", {}, square(one.state), h("b", {}, String(one.opset)),
      h("span", { class: "end" }, FACES[one.state][1], one.state !== PASSED && one.where ? ` at ${one.where}` : ""),
      h("span", {}, one.metrics ? [h("small", {}, "headroom"), ` ${headroom(one.metrics.headroom)}`] : null),
      h("span", {}, one.metrics ? [h("small", {}, "max abs"), ` ${errorSize(one.metrics.max_abs)}`] : null),
      h("span", {}, took ? duration(took) : "")));
  const fill = () => {
    if (element.childElementCount > 1) return;
    element.append(h("div", { class: "inside" }, [
      one.reason ? h("p", { class: "why" }, one.reason, " ", one.link ? linkTo(one.link) : null) : null,
      one.error ? h("p", { class: "why" }, `The error: ${one.error}`) : null,
      one.message ? h("pre", {}, one.message) : null,
      one.metrics ? h("dl", { class: "metrics" }, metricsOf(one.metrics).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))) : null,
      one.seconds.length ? h("p", { class: "stages" }, one.seconds.map(([name, seconds]) => [h("span", {}, name, " ", h("b", {}, duration(seconds))), " "])) : null,
      h("p", { class: "id" }, one.id, one.nodes ? `, ${plural(one.nodes, "node")}` : ""),
      one.bundle ? h("p", { class: "id" }, "Its model, inputs and expected outputs are in the run's folder: ", h("code", {}, one.bundle)) : null,
      one.state === ABSENT ? null : command(pytestLine(one)), WRONG.has(one.state) ? whatNext(one) : null,
    ]));
  };
  element.addEventListener("toggle", () => {
    if (!element.open) return;
    fill();
    address.set("variant", String(one.variant));
    address.set("opset", String(one.opset));
  });
  if (open) fill();
  return element;
}

orSay(view, render());
addEventListener("hashchange", () => render());
