// What every page has: copying commands, and the search over everything.
"use strict";

// On file:// pages only Chromium has `navigator.clipboard`; elsewhere the command is selected.
addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// On the first page the failures are not written by scripts.
for (const place of document.querySelectorAll("details.next[data-node]")) {
  const { node, where, state } = place.dataset;
  place.replaceWith(whatNext({ node, where, state: STATES.indexOf(state) }));
}

const caseAddress = (of, values = {}) => address.to("case.html", { name: of.name, family: of.family, kind: of.kind, ...values });

// The search: declarations, cases, PyTorch's names, ATen and ONNX operators. "/" or Control-K moves the focus to it.
const MOST_FOUND = 30;
const finder = document.getElementById("find");
const found = document.getElementById("found");
let everything = null;

async function entries() {
  const { declarations, names } = await load("search");
  everything ??= [
    ...declarations.flatMap(([kind, family, name, cases]) => [
      { label: name, what: `${kind}, ${family}`, href: caseAddress({ kind, family, name }) },
      ...cases.map((label) => ({ label, what: `case, ${family}`, href: caseAddress({ kind, family, name }, { case: label }) })),
    ]),
    ...names.map(([label, what, page, key]) => ({ label, what, href: address.to(page, { [key]: label }) })),
  ].map((entry) => ({ ...entry, text: `${entry.label} ${entry.what}`.toLowerCase() }));
  return everything;
}

// The text of which the answer is shown, and whether Enter was pressed before it was.
let answered = "";
let isAwaited = false;

async function find() {
  const asked = finder.value;
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  isAwaited = false;
  if (!words.length) { answered = asked; found.replaceChildren(); finder.ariaExpanded = "false"; return; }
  const all = await entries();
  // More has been typed meanwhile: that is answered next.
  if (asked !== finder.value) return;
  const matching = all.filter((entry) => words.every((word) => entry.text.includes(word)));
  const starts = (entry) => entry.label.toLowerCase().startsWith(words[0]) ? 0 : 1;
  matching.sort((a, b) => starts(a) - starts(b) || a.label.length - b.label.length || byName(a.label, b.label));
  found.replaceChildren(...matching.slice(0, MOST_FOUND).map((entry, place) =>
    h("li", { id: `found-${place}`, role: "option", "aria-selected": String(place === 0) }, h("a", { href: entry.href, tabindex: "-1" }, entry.label), " ", h("small", {}, entry.what))));
  if (!matching.length) found.append(h("li", { role: "option", "aria-selected": "false", "aria-disabled": "true" }, "Nothing has these words."));
  finder.ariaExpanded = "true";
  finder.setAttribute("aria-activedescendant", "found-0");
  answered = asked;
  if (isAwaited) followChosen();
}

function followChosen() {
  isAwaited = false;
  const link = found.querySelector('[aria-selected="true"] a');
  if (link) follow(link);
}

function choose(by) {
  const all = [...found.querySelectorAll("[role=option]")];
  const at = all.findIndex((option) => option.ariaSelected === "true");
  const next = all[(at + by + all.length) % all.length];
  for (const option of all) option.ariaSelected = String(option === next);
  finder.setAttribute("aria-activedescendant", next.id);
  next.scrollIntoView({ block: "nearest" });
}

function follow(link) {
  const here = location.href.split("#")[0];
  location.href = link.href;
  if (link.href.split("#")[0] === here) location.reload();
}

finder.addEventListener("input", find);
finder.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { finder.value = ""; find(); finder.blur(); }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.children.length) { event.preventDefault(); choose(event.key === "ArrowDown" ? 1 : -1); }
  if (event.key === "Enter") { if (answered === finder.value) followChosen(); else isAwaited = true; }
});
found.addEventListener("click", (event) => { const link = event.target.closest("a"); if (link) { event.preventDefault(); follow(link); } });
addEventListener("pointerdown", (event) => { if (!event.target.closest(".finder")) { found.replaceChildren(); finder.ariaExpanded = "false"; } });
addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if ((event.key === "/" && !typing) || (event.key === "k" && (event.ctrlKey || event.metaKey))) { event.preventDefault(); finder.focus(); }
});

// A page whose data are missing says so.
function orSay(place, promise) {
  return promise.catch((error) => { place.append(h("p", { class: "note", role: "alert" }, error.message)); throw error; });
}
