// What is covered, of what: one table per group of names.
"use strict";

// A bar and its figure. Where there is nothing to be covered, a package is missing.
function share({ covered, of }) {
  if (!of) return cell([square(ABSENT), " absent"]);
  const bar = h("i", { "aria-hidden": "true" });
  bar.style.width = `${(covered / of * 100).toFixed(1)}%`;
  return h("td", { class: "share" }, h("span", {}, bar), ` ${Math.floor(covered / of * 100)}%`);
}

const namesPlace = document.getElementById("names");
orSay(namesPlace, load("names").then((groups) => {
  namesPlace.append(h("section", { "aria-labelledby": "groups" }, h("h2", { id: "groups" }, "All groups"),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["names", "covered", "of", "not covered", "share"].map((name, at) => h("th", { scope: "col", class: at && name !== "share" ? "number" : "" }, name)))),
      h("tbody", {}, groups.map((group, at) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: address.to("pytorch.html", { g: at }) }, group.title)),
        numberCell(thousands(group.covered)), numberCell(thousands(group.of)), numberCell(thousands(group.of - group.covered)), share(group))))))));
  const shown = h("section", { "aria-labelledby": "group" });
  namesPlace.append(shown);
  const show = () => {
    const asked = address.get("q").toLowerCase();
    const wanted = address.get("g") || String(Math.max(0, groups.findIndex((group) => asked && group.rows.some((row) => row.name.toLowerCase().includes(asked)))));
    const group = groups[wanted] ?? groups[0];
    shown.replaceChildren(h("h2", { id: "group" }, `${group.title} `, h("small", {}, `${thousands(group.covered)} of ${thousands(group.of)} covered`)));
    shown.dataset.main = "names-table";
    const totals = new Map();
    for (const row of group.rows) {
      totals.set(row.state, (totals.get(row.state) ?? 0) + 1);
      row.states = new Set([row.state]);
      row.text = `${row.name} ${row.why}`;
    }
    table(shown, {
      id: "names-table", noun: "name", rows: group.rows, chips: [...totals].sort(([a], [b]) => a - b), caption: group.title,
      columns: [
        { name: "name", key: (row) => row.name, show: (row) => h("th", { scope: "row" }, square(row.state), h("span", {}, row.name)) },
        { name: "state", key: (row) => row.state, show: (row) => cell(FACES[row.state][1]) },
        { name: "passed at", key: (row) => row.passed?.[0] ?? 999, show: (row) => cell(opsetRanges(row.passed ?? [])) },
        { name: "failed at", key: (row) => row.wrong?.[0] ?? 999, show: (row) => cell(opsetRanges(row.wrong ?? [])) },
        { name: "cells", class: "number", key: (row) => row.cells ?? 0, show: (row) => numberCell(row.cells ? thousands(row.cells) : "") },
        { name: "cases, or why there are none", show: (row) => cell(row.by ? [row.by.map(([kind, family, name]) => [h("a", { href: caseAddress({ kind, family, name }) }, name), " "]), row.more ? h("small", {}, `and ${row.more} more`) : null] : row.why, { class: "by" }) },
      ],
    });
  };
  show();
  addEventListener("hashchange", () => { show(); shown.scrollIntoView(); });
}));
