// The ledger of findings: a row for each, and all that its files say.
"use strict";

// The site of a link leads to all of it.
const shortLink = (url) => { const link = linkTo(url); if (link.href) { const { host, pathname } = new URL(link.href); link.textContent = pathname.length > 1 ? `${host}${pathname}`.replace(/^github\.com\//, "") : host; } return link; };
const SHOWN = ["name", "title", "culprit", "fault", "since", "link"];

orSay(document.getElementById("findings"), load("findings").then((findings) => {
  const columns = SHOWN.filter((key) => findings.some((each) => each[key]));
  const rest = (each) => Object.entries(each).filter(([key, value]) => value && key !== "text" && !columns.includes(key));
  const rows = findings.map((each) => ({ ...each, text: Object.values(each).join(" "), script: each.text, rest: rest(each), states: new Set() }));
  const filters = columns.filter((key) => ["culprit", "fault"].includes(key)).map((key) => ({
    key, name: key, values: [...new Set(findings.map((each) => each[key]).filter(Boolean))].sort(byName), holds: (row, value) => row[key] === value,
  }));
  const more = (row) => h("details", {}, h("summary", {}, "read"),
    h("dl", { class: "facts-of-node" }, row.rest.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value)))), row.script ? h("pre", { tabindex: "0" }, row.script) : null);
  table(document.getElementById("findings"), {
    id: "ledger", noun: "finding", caption: "Findings", rows, filters,
    columns: [
      ...columns.map((name, at) => ({ name, key: (row) => row[name] ?? "", show: (row) => at ? cell(name === "link" ? shortLink(row[name] ?? "") : row[name] ?? "", { class: name === "title" ? "by" : name }) : h("th", { scope: "row" }, row[name]) })),
      { name: "more", show: (row) => cell(row.rest.length || row.script ? more(row) : "", { class: "by" }) },
    ],
  });
}));
