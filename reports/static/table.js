// Tables that are filled from data: filtered, sorted, and written to the page as far as they are scrolled to.
"use strict";

// When a table is filtered or sorted, the rows that the window has room for are written at once, and the next ones when
// those have been shown.
const ROWS_AT_FIRST = 30;
const ROWS_AT_A_TIME = 60;
const LEAST_HEIGHT = 22;

// `columns`: {name, title, key(row), show(row), number, sorted}. `rows` may have `text`, which the filter searches, and
// `states`, the states that its chips choose by, which `words` may call otherwise than usual. `id` names the table, and its part of the address.
function table(place, { id, noun, columns, rows, chips, className = "plain", caption, after, filters = [], words = {} }) {
  const asked = (key) => address.get(id === place.dataset.main ? key : `${id}.${key}`);
  const remember = (key, value) => address.set(id === place.dataset.main ? key : `${id}.${key}`, value);
  const all = rows.map((row) => ({ row, text: row.text.toLowerCase() }));
  const body = h("tbody");
  const output = h("output", { role: "status" });
  const nothing = h("p", { class: "nothing", hidden: true }, `No ${noun} matches.`);
  const more = h("p", { class: "note", hidden: true });
  const heads = columns.map((column, at) => {
    const button = h("button", { type: "button", title: column.title }, column.name);
    button.addEventListener("click", () => sortBy(at));
    const content = column.key ? button : column.name;
    return h("th", { scope: "col", class: column.class, "aria-sort": column.key ? "none" : undefined, id: column.id, title: column.key ? undefined : column.title }, content);
  });
  const element = h("table", { class: className, id, "data-noun": noun },
    h("caption", { class: "hidden" }, caption ?? `${noun}s`), h("thead", {}, h("tr", {}, heads)), body);
  const search = h("input", { type: "search", placeholder: `Filter ${noun}s`, "aria-label": `Filter ${noun}s`, value: asked("q") });
  const pressed = new Set(asked("state").split(",").filter(Boolean));
  const chosen = new Map(filters.map((filter) => [filter.key, asked(filter.key)]));
  // All rows in the order of the column that they are sorted by.
  let sorted = all;
  let shown = [];
  let written = 0;
  let changes = 0;

  const chipButtons = (chips ?? []).map(([state, number]) => {
    const name = STATES[state];
    const chip = h("button", { type: "button", "aria-pressed": String(pressed.has(name)), "data-state": name, title: words[state] ? undefined : FACES[state][3] },
      square(state), words[state] ?? FACES[state][number === 1 ? 1 : 2], " ", h("b", {}, thousands(number)));
    chip.addEventListener("click", () => {
      if (pressed.has(name)) pressed.delete(name); else pressed.add(name);
      chip.ariaPressed = String(pressed.has(name));
      remember("state", [...pressed].join(","));
      apply();
    });
    return chip;
  });
  const selects = filters.map((filter) => {
    const select = h("select", {}, h("option", { value: "" }, "any"), filter.values.map((value) => h("option", {}, String(value))));
    select.value = chosen.get(filter.key);
    select.addEventListener("change", () => { chosen.set(filter.key, select.value); remember(filter.key, select.value); apply(); });
    return h("label", {}, `${filter.name} `, select);
  });

  function apply(first = roomFor()) {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = [...pressed].map((name) => STATES.indexOf(name));
    const chosenOf = filters.filter((filter) => chosen.get(filter.key));
    shown = sorted.filter(({ row, text }) => words.every((word) => text.includes(word))
      && (!states.length || states.some((state) => row.states.has(state)))
      && chosenOf.every((filter) => filter.holds(row, chosen.get(filter.key))));
    body.replaceChildren();
    written = 0;
    write(first);
    // The rows that are seen are painted before further ones are written.
    const change = changes += 1;
    requestAnimationFrame(() => setTimeout(() => { if (change === changes && written < shown.length) write(); }));
    const every = plural(rows.length, noun);
    output.textContent = shown.length === rows.length ? every : `${thousands(shown.length)} of ${every}`;
    nothing.hidden = shown.length > 0;
  }

  // How many rows the window has room for. The page is laid out when this is asked, so that it costs nothing.
  function roomFor() {
    return Math.max(10, Math.ceil((innerHeight - Math.max(0, body.getBoundingClientRect().top)) / LEAST_HEIGHT));
  }

  function write(number = ROWS_AT_A_TIME) {
    const next = shown.slice(written, written + number);
    body.append(...next.map(({ row }) => {
      const line = h("tr", row.attributes ?? {});
      line.row = row;
      for (const column of columns) line.append(...[column.show(row)].flat());
      return line;
    }));
    written += next.length;
    more.hidden = written >= shown.length;
    more.textContent = more.hidden ? "" : `${plural(shown.length - written, noun)} more below`;
    element.dispatchEvent(new Event("written"));
  }

  function sortBy(at, turn = heads[at].ariaSort === "ascending" ? -1 : 1, first = roomFor()) {
    const keyed = all.map((each) => [sortKey(columns[at].key(each.row)), each]);
    keyed.sort(([a], [b]) => turn * (a < b ? -1 : a > b ? 1 : 0));
    sorted = keyed.map(([, each]) => each);
    for (const head of heads) if (head.ariaSort) head.ariaSort = "none";
    heads[at].ariaSort = turn === 1 ? "ascending" : "descending";
    remember("sort", `${turn < 0 ? "-" : ""}${columns[at].name}`);
    apply(first);
  }

  search.addEventListener("input", () => { remember("q", search.value); apply(); });
  new IntersectionObserver(([entry]) => { if (entry.isIntersecting && written < shown.length) write(); }, { rootMargin: "600px" }).observe(more);
  // A printed page has every row.
  addEventListener("beforeprint", () => { while (written < shown.length) write(); });
  const tools = rows.length > 5 || filters.length || search.value
    ? h("div", { class: "tools", "data-for": id }, search, chipButtons.length ? h("div", { class: "chips", role: "group", "aria-label": "Only rows that have" }, chipButtons) : null, selects, output)
    : null;
  place.append(...[tools, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? `${noun}s` }, element, more), nothing, after].filter(Boolean));
  const wanted = asked("sort");
  const at = columns.findIndex((column) => column.key && column.name === wanted.replace(/^-/, ""));
  if (wanted && at >= 0) sortBy(at, wanted.startsWith("-") ? -1 : 1, ROWS_AT_FIRST); else apply(ROWS_AT_FIRST);
  return element;
}

const cell = (content, attributes) => h("td", attributes, content);
const numberCell = (content, attributes = {}) => h("td", { ...attributes, class: `number ${attributes.class ?? ""}` }, content);
