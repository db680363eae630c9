// Grids: a row for each subject, a square for each opset, and a tooltip with the reasons of a square.
"use strict";

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);
// The square whose tooltip is open.
let current = null;

// Rows have `label`, `group`, `go` and `goTo(opset)`, `squares` by opset, `since`, `cells` and `headroom`. A square has
// `state`, `summary`, `some` and `reasons`, each with state, where, who and text. `first` and `second` are the heads of
// the columns of labels and groups, `words` what the states are called if not as usual, and `last` another column than
// that of headrooms.
function grid(place, { id, title, noun, opsets, rows, opsetAnchors = false, first = noun, second = "family", words, filters, last }) {
  const grouped = rows.some((row) => row.group);
  // A family is left out on a narrow screen.
  const family = second === "family" ? "family" : "family kept";
  const missing = { state: NOT_COVERED, summary: "not covered", some: false, reasons: [], more: 0 };
  const at = (row, opset) => row.squares.get(opset) ?? missing;
  const totals = {};
  for (const row of rows) {
    row.states = new Set(opsets.map((opset) => at(row, opset).state));
    row.text ??= `${row.label} ${row.group ?? ""}`;
    for (const opset of opsets) totals[at(row, opset).state] = (totals[at(row, opset).state] ?? 0) + 1;
  }
  const columns = [
    { name: first, class: "row", key: (row) => row.label, show: (row) => h("th", { scope: "row" }, h("a", { href: row.go, title: row.label }, row.label)) },
    ...grouped ? [{ name: second, class: family, key: (row) => row.group, show: (row) => h("td", { class: family }, row.group) }] : [],
    { name: "since", class: "number", title: "The first opset from which on every cell that ran passed", key: (row) => sinceKey(row.since), show: (row) => showSince(row, opsets) },
    ...opsets.map((opset) => ({
      name: String(opset), class: "opset", id: opsetAnchors ? `opset-${opset}` : undefined,
      show: (row) => {
        const one = at(row, opset);
        const shown = h("td", { class: `${STATES[one.state]}${one.some ? " some" : ""}`, title: one.summary, "data-opset": opset, tabindex: "-1" }, FACES[one.state][0]);
        shown.square = one;
        return shown;
      },
    })),
    { name: "cells", class: "number wide", key: (row) => row.cells, show: (row) => numberCell(thousands(row.cells), { class: "wide" }) },
    last ?? { name: "headroom", class: "number wide", title: "The smallest headroom of its cells: the tolerance divided by the error", key: (row) => row.headroom ?? Infinity,
      show: (row) => numberCell(headroom(row.headroom), { class: row.headroom !== null && row.headroom < 1 ? "wide low" : "wide" }) },
  ];
  const some = rows.some((row) => [...row.squares.values()].some((one) => one.some));
  const element = table(place, {
    id, noun, columns, rows, words, filters, className: grouped ? "grid" : "grid one-group",
    chips: Object.entries(totals).map(([state, number]) => [Number(state), number]),
    caption: `${title} by opset. Arrow keys move between squares and show their reasons; Enter opens the page of a square.`,
    after: some ? h("p", { class: "note" }, h("span", { class: "sq passed some", "aria-hidden": "true" }, "✓"), " A notched corner: some of the cells could not run here.") : null,
  });
  element.style.setProperty("--opsets", opsets.length);
  explain(element);
  return element;
}

// The opset from which on every cell that ran passed, and from which on every supported one did.
function rightSince(squares) {
  const since = { whole: null, partly: null, ran: false };
  let whole = true;
  for (const [opset, { state }] of [...squares].sort(([a], [b]) => b - a)) {
    if (state === ABSENT || state === NOT_COVERED) continue;
    since.ran = true;
    if (state !== PASSED && state !== PARTLY) break;
    whole &&= state === PASSED;
    if (whole) since.whole = opset;
    since.partly = opset;
  }
  return since;
}

const sinceKey = (since) => since.whole ?? (since.partly !== null ? since.partly + 0.5 : 999);

function showSince(row, opsets) {
  const { whole, partly, others } = row.since;
  // Where it ran at no lower opset, although others did, it may be right there too.
  const ran = (opset) => ![ABSENT, NOT_COVERED].includes(row.squares.get(opset)?.state ?? NOT_COVERED);
  const untried = opsets.some((opset) => opset < whole) && !opsets.some((opset) => opset < whole && ran(opset));
  const different = others?.length ? `; ${others.map(([dtype, words]) => `${dtype}: ${words}`).join(", ")}` : "";
  if (whole !== null) {
    const part = partly < whole ? h("span", { title: "In part: the exporter does not support some of its cells" }, `in part ${partly}, `) : null;
    return h("td", { class: "number in-part", title: `${row.since.dtype ?? ""}${different}${untried ? `${row.since.dtype || different ? "; " : ""}not tried at a lower opset` : ""}` || undefined }, part, h("b", {}, untried ? `≤ ${whole}` : String(whole)), different ? h("sup", {}, "+") : null);
  }
  if (partly !== null) return h("td", { class: "number in-part", title: `In part: the exporter does not support some of its cells${different}` }, h("span", {}, "in part"), ` ${partly}`);
  return h("td", { class: "number none", title: `At no opset${different}` }, row.since.ran === false ? "did not run" : "none");
}

const isSquare = (element) => Boolean(element?.square);
const rowOf = (square) => square.parentElement.row;
const headOf = (square) => square.closest("table").tHead.rows[0].cells[square.cellIndex];

function showTip(element, byTouch) {
  if (current === element) return;
  hideTip();
  current = element;
  element.removeAttribute("title");
  headOf(element).classList.add("on");
  const { summary, reasons, more } = element.square;
  const list = reasons.map(([state, where, who, text]) => {
    const from = [who, where].filter(Boolean).join(", ");
    return h("li", {}, square(state), h("p", {}, from ? h("span", { class: "who" }, `${from}: `) : null, text || "no reason recorded"));
  });
  tip.replaceChildren(h("p", {}, h("b", {}, rowOf(element).label), ` at opset ${element.dataset.opset}: ${summary}`),
    ...list.length ? [h("ul", {}, list, more ? h("p", { class: "who" }, `and ${more} more`) : null)] : []);
  if (byTouch) tip.append(h("a", { href: rowOf(element).goTo(element.dataset.opset) }, "Open"));
  tip.hidden = false;
  placeTip(element);
  element.setAttribute("aria-describedby", "tip");
}

function placeTip(element) {
  const box = element.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  const below = box.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - 8 - tip.offsetHeight)}px`;
}

function hideTip() {
  if (!current) return;
  if (current.isConnected) {
    headOf(current).classList.remove("on");
    current.title = current.square.summary;
    current.removeAttribute("aria-describedby");
  }
  current = null;
  tip.hidden = true;
}

function step(element, key) {
  const body = element.closest("tbody");
  const vertical = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[key];
  if (vertical) return element.parentElement[vertical]?.cells[element.cellIndex];
  const squares = [...element.parentElement.cells].filter(isSquare);
  const place = squares.indexOf(element);
  return body && squares[{ ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: squares.length - 1 }[key]];
}

// One tab stop for each grid, arrow keys within it, and a tooltip on focus, hover and touch.
function explain(element) {
  let touched = false;
  const enter = () => {
    if (element.querySelector('td[tabindex="0"]')) return;
    const first = [...(element.tBodies[0].rows[0]?.cells ?? [])].find(isSquare);
    if (first) first.tabIndex = 0;
  };
  element.addEventListener("written", enter);
  enter();
  const go = (one) => { location.href = rowOf(one).goTo(one.dataset.opset); };
  element.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch"; });
  element.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const under = event.target.closest("td");
    if (isSquare(under)) showTip(under); else hideTip();
  });
  element.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
  element.addEventListener("focusin", (event) => {
    if (!isSquare(event.target)) return hideTip();
    for (const other of element.querySelectorAll('td[tabindex="0"]')) other.tabIndex = -1;
    event.target.tabIndex = 0;
    showTip(event.target, touched);
  });
  element.addEventListener("focusout", () => { if (!touched) hideTip(); });
  element.addEventListener("click", (event) => {
    const clicked = event.target.closest("td");
    if (!isSquare(clicked)) return;
    if (touched) { clicked.tabIndex = 0; clicked.focus(); showTip(clicked, true); } else go(clicked);
  });
  element.addEventListener("keydown", (event) => {
    if (!isSquare(event.target)) return;
    if (event.key === "Enter") return go(event.target);
    if (event.key === "Escape") return hideTip();
    const next = step(event.target, event.key);
    if (!isSquare(next)) return;
    event.preventDefault();
    next.focus();
  });
}

// A touch on the link of a tooltip moves the focus before it follows the link: only a touch outside closes it.
addEventListener("pointerdown", (event) => { if (!tip.contains(event.target) && !event.target.closest(".grid td")) hideTip(); });
// When the page scrolls, the tooltip follows a square that has the focus or is still under the pointer.
addEventListener("scroll", () => {
  if (current) current === document.activeElement || current.matches(":hover") ? placeTip(current) : hideTip();
}, { passive: true });
