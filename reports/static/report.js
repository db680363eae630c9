// Filtering, sorting, tooltips of squares, and copying. The pages can be read without it, and it fetches nothing.
"use strict";

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
};

// Filter: a row stays if it contains the typed words, has one of the pressed states, and has the chosen opset.
for (const tools of document.querySelectorAll(".tools")) {
  const table = document.getElementById(tools.dataset.for);
  if (!table) continue;
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => {
    const named = [...row.cells].filter((cell) => !cell.dataset.r && cell.textContent.trim().length > 1);
    return [...named.map((cell) => cell.title || cell.textContent), row.dataset.more || ""].join(" ").toLowerCase();
  });
  const search = tools.querySelector("input");
  const chips = [...tools.querySelectorAll("[data-state]")];
  const opset = tools.querySelector("select");
  const nothing = table.closest("section").querySelector(".nothing");
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = chips.filter((chip) => chip.ariaPressed === "true").map((chip) => chip.dataset.state);
    let shown = 0;
    rows.forEach((row, place) => {
      const has = (row.dataset.states || "").split(" ");
      const keep = words.every((word) => texts[place].includes(word))
        && (!states.length || states.some((state) => has.includes(state)))
        && (!opset?.value || row.dataset.opsets.split(" ").includes(opset.value));
      row.hidden = !keep;
      shown += keep;
    });
    const noun = table.dataset.noun + (rows.length === 1 ? "" : "s");
    tools.querySelector("output").textContent =
      shown === rows.length ? `${rows.length.toLocaleString("en")} ${noun}` : `${shown} of ${rows.length.toLocaleString("en")} ${noun}`;
    nothing.hidden = shown > 0;
  };
  search.addEventListener("input", apply);
  opset?.addEventListener("change", apply);
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.ariaPressed = chip.ariaPressed === "true" ? "false" : "true";
      apply();
    });
  }
}

// Sort by the data-value of the cells, or by their text without one. A second press reverses the order.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const header = button.closest("th");
    const column = header.cellIndex;
    const turn = header.ariaSort === "ascending" ? -1 : 1;
    for (const other of header.parentElement.cells) if (other.ariaSort) other.ariaSort = "none";
    header.ariaSort = turn === 1 ? "ascending" : "descending";
    const body = header.closest("table").tBodies[0];
    const keyed = [...body.rows].map((row) => {
      const cell = row.cells[column];
      const value = cell.dataset.value;
      return { row, key: value === undefined ? cell.textContent.trim() : Number(value === "inf" ? Infinity : value) };
    });
    keyed.sort((a, b) => turn * (typeof a.key === "number"
      ? (a.key > b.key) - (a.key < b.key) || isNaN(b.key) - isNaN(a.key)
      : a.key.localeCompare(b.key, "en", { numeric: true })));
    body.append(...keyed.map((item) => item.row));
  });
}

// Squares: one tab stop for each grid, arrow keys within it; a tooltip on focus, hover and touch.
const tip = document.body.appendChild(make("div"));
tip.id = "tip";
tip.role = "tooltip";
tip.hidden = true;
// The square whose tooltip is open.
let current = null;

const isSquare = (cell) => cell?.matches(".grid td:not(.number, .family)");
const reasonsOf = (table) => (table.reasons ??= JSON.parse(document.getElementById(`${table.id}-reasons`).textContent));
const opsetOf = (cell) => cell.closest("table").tHead.rows[0].cells[cell.cellIndex];

function showTip(cell, byTouch) {
  if (current === cell) return;
  hideTip();
  current = cell;
  const row = cell.parentElement;
  cell.dataset.summary ??= cell.title;
  cell.removeAttribute("title");
  opsetOf(cell).classList.add("on");
  const heading = make("p");
  const named = row.cells[0].firstElementChild;
  heading.append(make("b", "", named.title), ` at opset ${opsetOf(cell).textContent.trim()}: ${cell.dataset.summary}`);
  const list = make("ul");
  for (const part of (cell.dataset.r || "").split(" ").filter(Boolean)) {
    if (part.startsWith("+")) {
      list.append(make("p", "who", `and ${part.slice(1)} more`));
      continue;
    }
    const [state, glyph, where, who, text] = reasonsOf(cell.closest("table"))[part];
    const item = make("li");
    const reason = make("p", "", text || "no reason recorded");
    const place = [who, where].filter(Boolean).join(", ");
    if (place) reason.prepend(make("span", "who", `${place}: `));
    item.append(make("span", `sq ${state}`, glyph), reason);
    list.append(item);
  }
  tip.replaceChildren(heading, ...(list.children.length ? [list] : []));
  if (byTouch) {
    const link = make("a", "", "Open");
    link.href = row.dataset.go + opsetOf(cell).textContent.trim();
    tip.append(link);
  }
  tip.hidden = false;
  placeTip(cell);
  cell.setAttribute("aria-describedby", "tip");
}

function placeTip(cell) {
  const box = cell.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
  const below = box.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - 8 - tip.offsetHeight)}px`;
}

function hideTip() {
  if (!current) return;
  opsetOf(current).classList.remove("on");
  current.title = current.dataset.summary;
  current.removeAttribute("aria-describedby");
  current = null;
  tip.hidden = true;
}

const open = (cell) => { location.href = cell.parentElement.dataset.go + opsetOf(cell).textContent.trim(); };
const shownRows = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden);

function step(cell, key) {
  const rows = shownRows(cell.closest("table"));
  const at = rows.indexOf(cell.parentElement);
  const squares = [...cell.parentElement.cells].filter(isSquare);
  const place = squares.indexOf(cell);
  const vertical = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (vertical) return rows[at + vertical]?.cells[cell.cellIndex];
  return squares[{ ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: squares.length - 1 }[key]];
}

for (const table of document.querySelectorAll(".grid")) {
  let touched = false;
  const entry = [...(table.tBodies[0].rows[0]?.cells ?? [])].find(isSquare);
  if (entry) entry.tabIndex = 0;
  table.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch"; });
  table.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const cell = event.target.closest("td");
    if (isSquare(cell)) showTip(cell); else hideTip();
  });
  table.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hideTip(); });
  table.addEventListener("focusin", (event) => {
    if (!isSquare(event.target)) return hideTip();
    for (const cell of table.querySelectorAll('td[tabindex="0"]')) cell.tabIndex = -1;
    event.target.tabIndex = 0;
    showTip(event.target, touched);
  });
  table.addEventListener("focusout", () => { if (!touched) hideTip(); });
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (!isSquare(cell)) return;
    if (touched) { cell.tabIndex = 0; cell.focus(); showTip(cell, true); } else open(cell);
  });
  table.addEventListener("keydown", (event) => {
    if (!isSquare(event.target)) return;
    if (event.key === "Enter") return open(event.target);
    if (event.key === "Escape") return hideTip();
    const next = step(event.target, event.key);
    if (!next) return;
    event.preventDefault();
    next.tabIndex = -1;
    next.focus();
  });
}
// A touch on the link of a tooltip moves the focus before it follows the link: only a touch outside closes it.
addEventListener("pointerdown", (event) => { if (!tip.contains(event.target) && !event.target.closest(".grid td")) hideTip(); });
// When the page scrolls, the tooltip follows a square that has the focus or is still under the pointer.
addEventListener("scroll", () => {
  if (current) current === document.activeElement || current.matches(":hover") ? placeTip(current) : hideTip();
}, { passive: true });

// Copy a command. On file:// pages only Chromium has `navigator.clipboard`; elsewhere the command is selected.
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// A link to a cell unfolds it and the elements around it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let element = target; element; element = element.parentElement) if (element.tagName === "DETAILS") element.open = true;
  if (target?.tagName === "DETAILS") target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

// The key "/" moves the focus to the first filter.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select")) return;
  const search = document.querySelector(".tools input");
  if (!search) return;
  event.preventDefault();
  search.focus();
});
