// A drawn graph: boxes for nodes, that can be moved, zoomed and searched with pointer and keyboard.
"use strict";

const LONGEST_LABEL = 30;
const shortened = (text) => text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text;
const opName = (node) => node.domain ? `${node.domain}::${node.op}` : node.op;

// The values of the graphs around it that a body uses belong to its node, too.
function usedBy(node) {
  const used = new Set((node.inputs ?? []).filter(Boolean));
  for (const body of Object.values(node.bodies ?? {})) {
    const own = new Set([...body.inputs, ...(body.constants ?? []), ...body.nodes.flatMap((each) => each.outputs)]);
    for (const each of [...body.nodes.flatMap((inner) => [...usedBy(inner)]), ...body.outputs]) if (!own.has(each)) used.add(each);
  }
  return used;
}

// The boxes of a graph: inputs, nodes, and outputs. Weights and other constants are part of the nodes that use them.
function boxesOf(graph) {
  const made = new Map();
  const boxes = [];
  const add = (box, from, values) => {
    box.from = [...from].map((name) => made.get(name)).filter((at) => at !== undefined);
    box.width = Math.max(56, 18 + 6.9 * Math.max(box.label.length, 0.88 * box.under.length));
    for (const value of values) made.set(value, boxes.length);
    boxes.push(box);
  };
  const type = (name) => shortened(graph.types?.[name] ?? "");
  for (const name of graph.inputs) add({ label: shortened(name), under: type(name), end: "input", values: [name] }, [], [name]);
  for (const node of graph.nodes) {
    add({ label: shortened(opName(node)), under: type(node.outputs.find(Boolean) ?? ""), node, values: node.outputs }, usedBy(node), node.outputs.filter(Boolean));
  }
  for (const name of graph.outputs) add({ label: shortened(name), under: "", end: "output", values: [] }, [name], []);
  return boxes;
}

// `marks(box)` gives a box {name, glyph, words}: what colour it has, which sign, and what a reader is told.
// `chosen(box)` is called when a box is selected.
function canvas(title, graph, marks, chosen) {
  const boxes = boxesOf(graph);
  const laid = layOut(boxes);
  const groups = boxes.map((box, at) => {
    const { x, y } = laid.boxes[at];
    const mark = marks(box);
    box.mark = mark;
    const group = svg("g", { class: `box ${box.end ?? ""} ${mark?.name ?? ""}`, transform: `translate(${(x - box.width / 2).toFixed(1)} ${y})` },
      svg("rect", { width: box.width.toFixed(1), height: NODE_HEIGHT, rx: box.end ? 19 : 6 }),
      svg("text", { x: (box.width / 2).toFixed(1), y: box.under ? 16 : 24 }, (mark ? `${mark.glyph} ` : "") + box.label));
    if (box.under) group.append(svg("text", { class: "under", x: (box.width / 2).toFixed(1), y: 30 }, box.under));
    group.append(svg("title", {}, [box.node ? opName(box.node) : `${box.end} ${box.label}`, box.under, mark?.words].filter(Boolean).join(", ")));
    group.addEventListener("click", () => select(at));
    return group;
  });
  const edges = laid.edges.map(({ points }) => svg("path", { d: edgePath(points) }));
  const picture = svg("svg", { role: "img", "aria-label": `${title}: ${plural(graph.nodes.length, "node")}, from ${graph.inputs.join(", ") || "nothing"} to ${graph.outputs.join(", ")}` },
    svg("g", { class: "edges" }, ...edges), ...groups);
  const frame = h("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": `${title}. Arrow keys move it, plus and minus zoom, 0 shows all of it.` }, picture);
  const search = h("input", { type: "search", placeholder: "Find in the graph", "aria-label": `Find in ${title}` });
  const told = h("output", { role: "status" });
  const zoomer = (label, name, by) => { const button = h("button", { type: "button", "aria-label": `${name}: ${title}` }, label); button.addEventListener("click", by); return button; };
  const element = h("div", { class: "pane" }, h("div", { class: "tools" }, h("b", {}, title), search,
    zoomer("+", "Larger", () => zoom(1 / 1.4)), zoomer("−", "Smaller", () => zoom(1.4)), zoomer("All", "Show all", () => fit()), told), frame);

  let seen = { x: 0, y: 0, width: laid.width, height: laid.height };
  const show = () => picture.setAttribute("viewBox", `${seen.x.toFixed(1)} ${seen.y.toFixed(1)} ${seen.width.toFixed(1)} ${seen.height.toFixed(1)}`);
  const ratio = () => (frame.clientWidth || 600) / (frame.clientHeight || 400);
  // The part of the graph that is seen has the shape of the frame.
  function look(x, y, width) {
    const least = 120, most = 2 * Math.max(laid.width + 40, (laid.height + 40) * ratio(), frame.clientWidth || 600);
    width = Math.min(Math.max(width, least), most);
    seen = { x: x - width / 2, y: y - width / ratio() / 2, width, height: width / ratio() };
    show();
  }
  const middle = () => [seen.x + seen.width / 2, seen.y + seen.height / 2];
  const zoom = (by, [x, y] = middle()) => { const [a, b] = middle(); look(x + (a - x) * by, y + (b - y) * by, seen.width * by); };
  // All of it, and no larger than the text around it.
  const fit = () => look(laid.width / 2, laid.height / 2, Math.max(laid.width + 40, (laid.height + 40) * ratio(), (frame.clientWidth || 600) / 1.3));
  // A large graph begins at its top, in a size that can be read.
  function begin() {
    fit();
    const readable = 1.6 * (frame.clientWidth || 600);
    if (seen.width > readable) look(laid.boxes[0]?.x ?? 0, readable / ratio() / 2 - 20, readable);
  }

  let at = -1;
  function select(number) {
    if (at >= 0) groups[at].classList.remove("chosen");
    at = number;
    groups[at].classList.add("chosen");
    const { x, y } = laid.boxes[at];
    if (x < seen.x || x > seen.x + seen.width || y < seen.y || y > seen.y + seen.height) look(x, y + NODE_HEIGHT / 2, Math.min(seen.width, 900));
    chosen(boxes[at], graph);
  }
  const textOf = (box) => [box.label, box.node && opName(box.node), box.under, ...box.values, ...(box.node ? [...(box.node.inputs ?? []), box.node.operator, box.node.where, box.node.module] : []), box.mark?.words].join(" ").toLowerCase();
  const texts = boxes.map(textOf);
  let hits = [];
  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = words.length ? [...boxes.keys()].filter((number) => words.every((word) => texts[number].includes(word))) : [];
    groups.forEach((group, number) => group.classList.toggle("hit", hits.includes(number)));
    told.textContent = words.length ? `${thousands(hits.length)} found` : "";
  }
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    event.preventDefault();
    const next = hits.indexOf(at) + (event.shiftKey ? -1 : 1);
    select(hits[(next + hits.length) % hits.length]);
    told.textContent = `${hits.indexOf(at) + 1} of ${hits.length}`;
  });

  const inGraph = (event) => {
    const box = frame.getBoundingClientRect();
    return [seen.x + (event.clientX - box.left) / box.width * seen.width, seen.y + (event.clientY - box.top) / box.height * seen.height];
  };
  let held = null;
  frame.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, from: middle() }; });
  frame.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    const scale = seen.width / frame.clientWidth;
    // A short way is a click on a box. A captured pointer clicks on none, and may leave the frame.
    if (!held.moved && Math.hypot(event.clientX - held.x, event.clientY - held.y) > 4) { held.moved = true; frame.setPointerCapture(event.pointerId); }
    if (held.moved) look(held.from[0] - (event.clientX - held.x) * scale, held.from[1] - (event.clientY - held.y) * scale, seen.width);
  });
  for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, () => { held = null; });
  // The wheel scrolls the page, unless the graph has the focus or Control is held.
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== frame) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 400), inGraph(event));
  }, { passive: false });
  frame.addEventListener("keydown", (event) => {
    const by = seen.width / 8;
    const [x, y] = middle();
    const move = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[event.key];
    if (move) look(x + move[0], y + move[1], seen.width);
    else if (event.key === "+" || event.key === "=") zoom(1 / 1.4);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => { if (frame.clientWidth) begin(); }).observe(frame);
  return element;
}
