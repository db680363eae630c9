// Why a case has its outcome: the recorded program, the exported graph at one opset or two, and the errors of values.
"use strict";

// Larger graphs are not shown beside each other unless that is asked for.
const MOST_BESIDE = 100;
// The versions of operators differ from opset to opset, and are not marked.
const signature = (node) => JSON.stringify([node.domain, node.op, node.attributes, Object.entries(node.bodies ?? {}).map(([name, body]) => [name, body.nodes.map(signature)])]);

// The places of a longest common subsequence of two lists of texts, as pairs.
function common(one, other) {
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const [a, b] = [one.slice(begin, one.length - end), other.slice(begin, other.length - end)];
  const pairs = Array.from({ length: begin }, (_, at) => [at, at]);
  const wide = b.length + 1;
  const best = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      best[i * wide + j] = a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  for (let [i, j] = [0, 0]; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { pairs.push([begin + i, begin + j]); i += 1; j += 1; }
    else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) i += 1; else j += 1;
  }
  for (let at = end; at > 0; at -= 1) pairs.push([one.length - at, other.length - at]);
  return pairs;
}

function graphLines(graph, indent = "") {
  const typed = (name) => `%${name}${graph.types?.[name] ? ` : ${graph.types[name]}` : ""}`;
  const lines = [`${indent}graph(${graph.inputs.map(typed).join(", ")}) {`];
  for (const node of graph.nodes) {
    const attributes = (node.attributes ?? []).map(([name, text]) => `${name}=${text}`).join(", ");
    const from = [node.operator, node.where].filter(Boolean).join(", ");
    lines.push(`${indent}  ${node.outputs.map(typed).join(", ")} = ${opName(node)}${attributes ? `[${attributes}]` : ""}(${node.inputs.map((name) => name && `%${name}`).join(", ")})${from ? `  # ${from}` : ""}`);
    for (const [name, body] of Object.entries(node.bodies ?? {})) { lines.push(`${indent}    ${name}:`); lines.push(...graphLines(body, `${indent}    `)); }
  }
  lines.push(`${indent}  return (${graph.outputs.map((name) => `%${name}`).join(", ")})`, `${indent}}`);
  return lines;
}

function textWithDifference(graph, other) {
  const lines = graphLines(graph);
  if (!other) return h("pre", { tabindex: "0" }, lines.join("\n"));
  const shared = new Set(common(lines, graphLines(other)).map(([at]) => at));
  return h("pre", { tabindex: "0" }, lines.flatMap((line, at) => [shared.has(at) ? `  ${line}` : h("ins", {}, `+ ${line}`), "\n"]));
}

function showNode(place, box, graph, values) {
  const typed = (name) => [h("code", {}, name || "none"), graph.types?.[name] ? ` ${graph.types[name]}` : (graph.constants ?? []).includes(name) ? " a constant" : ""];
  const listed = (names) => names.map((name, at) => [at ? ", " : "", typed(name)]);
  const rows = box.node ? [
    ["operator", [h("code", {}, opName(box.node)), box.node.since ? ` since version ${box.node.since}` : ""]], ["inputs", listed(box.node.inputs)], ["outputs", listed(box.node.outputs)],
    ...(box.node.attributes ?? []).map(([name, text]) => [name, h("code", {}, text)]),
    ["written for", box.node.operator && h("code", {}, box.node.operator)], ["module", box.node.module && h("code", {}, box.node.module)], ["line", box.node.where && h("code", {}, box.node.where)],
    ...Object.entries(box.node.bodies ?? {}).map(([name, body]) => [name, h("pre", { tabindex: "0" }, graphLines(body).join("\n"))]),
    ...box.values.filter((name) => values[name]).map((name) => ["error", values[name].diverges ? h("b", {}, `diverges: ${values[name].detail}`) : `right: ${growthWords(values[name])}`]),
  ] : [[box.end, listed([box.label])]];
  place.replaceChildren(h("dl", { class: "facts-of-node" }, rows.filter(([, content]) => content && content.length !== 0).map(([name, content]) => h("div", {}, h("dt", {}, name), h("dd", {}, content)))));
}

const growthWords = (value) => value.growth === null || value.growth === undefined ? "the error is infinite" : value.growth ? `the error is ${value.growth.toPrecision(2)} of its tolerance` : "exactly equal";

function marksOf(graph, other, values) {
  const differing = new Set(graph.nodes);
  if (other) for (const [at] of common(graph.nodes.map(signature), other.nodes.map(signature))) differing.delete(graph.nodes[at]);
  return (box) => {
    const known = box.values.map((name) => values[name]).filter(Boolean);
    if (known.some((value) => value.diverges)) return { name: "diverges", glyph: "≠", words: "its value diverges" };
    if (other && box.node && differing.has(box.node)) return { name: "only-here", glyph: "Δ", words: "differs from the graph beside it" };
    return known.length ? { name: "held", glyph: "=", words: "its value is right" } : null;
  };
}

function errorsOf(picture) {
  const total = picture.ulps.reduce((sum, count) => sum + count, 0) + (picture.not_finite ?? 0);
  if (!total) return h("p", { class: "note" }, `${picture.name}: there are no elements to compare, or the dtype or the shape differs.`);
  const bands = picture.ulps.map((count, at) => [at === 0 ? "equal" : at === 25 ? "more" : `up to ${thousands(2 ** (at - 1))}`, count]).filter(([, count]) => count);
  if (picture.not_finite) bands.push(["NaN or infinite", picture.not_finite]);
  const most = Math.max(...bands.map(([, count]) => count));
  const bar = (count) => { const each = h("i"); each.style.width = `${(count / most * 100).toFixed(1)}%`; return count ? each : null; };
  return [h("h3", {}, h("code", {}, picture.name), ` ${picture.type} `, h("small", {}, "elements by their error in units in the last place")),
    h("dl", { class: "bands unjudged" }, bands.map(([name, count]) => h("div", {}, h("dt", {}, name), h("dd", {}, bar(count), h("b", {}, thousands(count)))))),
    picture.map?.length ? errorMap(picture) : null];
}

// Where in the tensor the errors are: rows and columns, and a cross where the tolerance is exceeded.
function errorMap({ map, pooled }) {
  const size = map[0].length > 24 ? 14 : 22;
  const cross = size - 7;
  const flat = map.flat();
  const wrong = flat.filter((ratio) => ratio > 1).length;
  const parts = map.flatMap((row, y) => row.map((ratio, x) => {
    const name = ratio > 1 ? "wrong" : ratio > 0.1 ? "close" : ratio > 0 ? "small" : "exact";
    const part = svg("g", { class: name }, svg("rect", { x: x * size, y: y * size, width: size - 1, height: size - 1 }));
    if (ratio > 1) part.append(svg("path", { d: `M${x * size + 3} ${y * size + 3}l${cross} ${cross}m0 ${-cross}l${-cross} ${cross}` }));
    return part;
  }));
  const [wide, high] = pooled ?? [1, 1];
  const each = wide * high > 1 ? `, each of ${plural(high, "row")} by ${plural(wide, "column")}` : "";
  const words = `${thousands(wrong)} of ${plural(flat.length, "part")} of the output${each} exceed the tolerance; the largest error is ${Math.max(...flat) >= 1e9 ? "beyond any" : `${Math.max(...flat).toPrecision(3)} of its`} tolerance`;
  return h("figure", { class: "error-map" },
    svg("svg", { viewBox: `0 0 ${map[0].length * size} ${map.length * size}`, width: map[0].length * size, role: "img", "aria-label": words }, ...parts),
    h("figcaption", {}, `${words}. A cross: beyond the tolerance. A stronger colour: more than a tenth of it.`));
}

// Values may be called `constructor`: what is looked up by their names has nothing but what was put into it.
function withoutInherited(graph) {
  if (graph.types) Object.setPrototypeOf(graph.types, null);
  for (const node of graph.nodes) Object.values(node.bodies ?? {}).forEach(withoutInherited);
}

// What there is of a case, if it was drawn.
async function drawingOf(declaration, data) {
  const wanted = new URLSearchParams({ kind: declaration.kind, family: declaration.family, name: declaration.name, case: data.case });
  let drawing = null;
  if (Object.hasOwn(declaration.drawings, data.case)) {
    const [piece, at] = declaration.drawings[data.case];
    drawing = (await load(`drawings-${piece}`))[at];
  } else if (document.documentElement.dataset.served) {
    drawing = await load(`drawn?${wanted}`, `draw/drawn.js?${wanted}`);
  }
  drawing?.graphs?.forEach(withoutInherited);
  if (drawing?.values) Object.setPrototypeOf(drawing.values, null);
  return drawing;
}

function showDrawing(declaration, data, place) {
  const waiting = h("p", { class: "note", role: "status" }, "The graph is being drawn.");
  if (document.documentElement.dataset.served) place.append(waiting);
  return orSay(place, drawingOf(declaration, data).then((drawing) => {
    waiting.remove();
    if (!drawing) {
      place.append(h("p", { class: "note" }, "This case has not been drawn. This draws it, into the report of the run:"), command(`parity report --draw ${shellQuoted(data.case)}`));
      return;
    }
    if (drawing.missing) place.append(h("p", { class: "note" }, `Not all of it could be drawn: ${drawing.missing}.`));
    if (drawing.graphs?.length) showGraphs(drawing, place);
    const refused = (drawing.opsets ?? []).filter((each) => each.error);
    for (const [exporter, error] of new Map(refused.map((each) => [JSON.stringify([each.exporter, each.error]), [each.exporter, each.error]])).values()) {
      const opsets = refused.filter((each) => each.error === error && each.exporter === exporter).map((each) => each.opset);
      const by = exporter ?? (drawing.exporter === "parity" ? "" : drawing.exporter);
      place.append(h("p", { class: "note" }, by ? `${by}, opset` : "Opset", ` ${opsetRanges(opsets)}: ${error}`));
    }
    if (drawing.program) place.append(h("details", { open: drawing.program.length < 2000 }, h("summary", {}, "The recorded program"), h("pre", { class: "source", tabindex: "0" }, drawing.program)));
    if (drawing.errors?.length) place.append(h("div", { class: "errors" }, h("p", { class: "note" }, `The outputs of ${drawing.cell}`), drawing.errors.map(errorsOf)));
  }));
}

function showGraphs(drawing, place) {
  // For each graph, its exporters and opsets. The exporter of the cell that was drawn is said if there are others, or if it is another one.
  const at = new Map();
  const drawn = drawing.opsets.filter(({ graph }) => graph !== undefined && drawing.graphs[graph]);
  const several = drawing.opsets.some((each) => each.exporter);
  const named = several || (drawing.exporter ?? "parity") !== "parity";
  const own = drawing.exporter ?? "the exporter of the cell";
  for (const { opset, graph, exporter } of drawn) {
    if (!at.has(graph)) at.set(graph, new Map());
    const by = named ? exporter ?? own : "";
    at.get(graph).set(by, [...at.get(graph).get(by) ?? [], opset]);
  }
  const numbers = [...at.keys()];
  const focus = drawn.find((each) => each.opset === drawing.opset && !each.exporter)?.graph ?? -1;
  const title = (number) => [...at.get(number)].map(([by, opsets]) => `${by ? `${by}, ` : ""}opset ${opsetRanges(opsets)}`).join("; ");
  const options = () => numbers.map((number) => h("option", { value: String(number) }, title(number).replace(/^opset /, "")));
  const [first, second] = [h("select", {}, options()), h("select", {}, h("option", { value: "" }, "nothing"), options())];
  const NOTHING = "nothing";
  // In the address: an opset, or an opset and an exporter.
  const withKey = (key) => drawn.find((each) => key === `${each.opset}${each.exporter ? ` ${each.exporter}` : ""}`)?.graph;
  const keyOf = (number) => { const { opset, exporter } = drawn.find((each) => each.graph === number); return `${opset}${exporter ? ` ${exporter}` : ""}`; };
  first.value = String(withKey(address.get("graph")) ?? (focus >= 0 ? focus : numbers[0]));
  // Unless the address says otherwise, what is beside a small graph is that of another exporter, or of the opset before.
  const partner = () => {
    const own = drawn.find((each) => each.graph === Number(first.value));
    const others = drawn.filter((each) => each.graph !== own.graph && drawing.graphs[each.graph].nodes.length <= MOST_BESIDE);
    return drawing.graphs[own.graph].nodes.length > MOST_BESIDE ? undefined : others.find((each) => each.opset === own.opset) ?? others.findLast((each) => each.opset < own.opset) ?? others[0];
  };
  const asked = address.get("beside");
  second.value = asked === NOTHING ? "" : String(withKey(asked) ?? partner()?.graph ?? "");
  const panes = h("div", { class: "panes" });
  const node = h("div", { role: "status", class: "of-node" });
  const texts = h("div", { class: "panes" });
  const show = () => {
    // A graph is not beside itself.
    for (const option of second.options) option.hidden = option.disabled = option.value === first.value;
    if (second.value === first.value) second.value = String(partner()?.graph ?? "");
    const [one, other] = [first.value, second.value].map((value) => value === "" ? null : Number(value));
    const graphs = [[one, other], ...(other === null || other === one ? [] : [[other, one]])];
    const beside = (number) => number === null || other === one ? null : drawing.graphs[number];
    panes.replaceChildren(...graphs.map(([number, against]) => {
      const graph = drawing.graphs[number];
      const values = number === focus ? drawing.values ?? {} : {};
      return canvas(title(number), graph, marksOf(graph, beside(against), values), (box) => showNode(node, box, graph, values));
    }));
    node.replaceChildren(h("p", { class: "note" }, "Select a node to read its inputs, its attributes, and the line that it comes from."));
    texts.replaceChildren(...graphs.map(([number, against]) => h("div", {}, textWithDifference(drawing.graphs[number], beside(against)))));
  };
  for (const [select, key] of [[first, "graph"], [second, "beside"]]) {
    select.addEventListener("change", () => { address.set(key, select.value === "" ? NOTHING : keyOf(Number(select.value))); show(); });
  }
  show();
  const diverging = Object.values(drawing.values ?? {}).filter((value) => value.diverges).length;
  const judged = Object.keys(drawing.values ?? {}).length;
  place.append(h("div", { class: "tools" }, h("label", {}, named ? "graph of " : "opset ", first), numbers.length > 1 ? h("label", {}, "beside it ", second) : null), panes, node,
    h("p", { class: "note" }, judged ? `${thousands(diverging)} of ${plural(judged, "value")} inside the model that PyTorch has too diverge at opset ${drawing.opset}. ` : "", "≠ its value diverges, = its value is right, Δ differs from the graph beside it. Weights and other constants are not drawn; a node lists its own."),
    h("details", {}, h("summary", {}, "The graph as text"), texts));
}
