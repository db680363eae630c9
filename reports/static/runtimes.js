// Runtimes beside each other: in all, what one claims to run and gets wrong, and by operator and opset.
"use strict";

orSay(document.getElementById("runtimes"), load("runtimes").then(({ subjects, endings, grave, totals, seconds, rows, findings, unlisted }) => {
  const place = document.getElementById("runtimes");
  const RIGHT = endings.indexOf("right");
  const UNSUPPORTED_BY_IT = endings.indexOf("unsupported");
  // The look of each ending, in their order: wrong, crashed, hung, refused, unsupported, right.
  const looks = [FAILED, CRASHED, UNEXPECTED, KNOWN, UNSUPPORTED, PASSED];
  const words = { [FAILED]: "wrong", [CRASHED]: "crashed", [UNEXPECTED]: "hung", [KNOWN]: "refused", [UNSUPPORTED]: "unsupported", [PASSED]: "right", [PARTLY]: "right in part" };
  const ending = (number) => [square(looks[number]), ` ${endings[number]}`];
  const part = (id, title, note) => {
    const section = h("section", { "aria-labelledby": id }, h("h2", { id }, title, " ", h("small", {}, note)));
    place.append(section);
    return section;
  };
  const isGrave = (number) => number < grave;

  part("all", "In all", plural(totals.flat().reduce((sum, number) => sum + number, 0), "cell")).append(
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "In all" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["runtime", ...endings, "seconds"].map((name, at) => h("th", { scope: "col", class: at ? "number" : "", title: name === "seconds" ? "How long it took to load the models, to run them, and to compare its outputs" : null }, name)))),
      h("tbody", {}, subjects.map((subject, at) => h("tr", {}, h("th", { scope: "row" }, subject),
        totals[at].map((number, which) => numberCell(thousands(number), { class: isGrave(which) && number ? "low" : "" })), numberCell(seconds[at].toFixed(1))))))));

  const claimed = part("claimed", "Claimed, but wrong", "of one case and dtype, wherever a runtime gave no error and a wrong result, crashed or hung");
  if (findings.length) {
    claimed.dataset.main = "findings";
    for (const each of findings) each.text = [subjects[each.subject], endings[each.ending], each.case, each.dtype, each.stage, each.reason].join(" ");
    table(claimed, {
      id: "findings", noun: "finding", caption: "What a runtime claims to run and gets wrong", rows: findings.map((each) => ({ ...each, states: new Set() })),
      filters: [
        { key: "runtime", name: "runtime", values: subjects, holds: (row, value) => subjects[row.subject] === value },
        { key: "ending", name: "ending", values: endings.slice(0, grave), holds: (row, value) => endings[row.ending] === value },
      ],
      columns: [
        { name: "ending", key: (row) => row.ending, show: (row) => cell(ending(row.ending)) },
        { name: "runtime", key: (row) => subjects[row.subject], show: (row) => cell(subjects[row.subject]) },
        { name: "case", key: (row) => row.case, show: (row) => h("th", { scope: "row" }, h("a", { href: caseAddress({ kind: row.of[0], family: row.of[1], name: row.of[2] }, { case: row.case }) }, row.case)) },
        { name: "dtype", key: (row) => row.dtype, show: (row) => cell(row.dtype) },
        { name: "opsets", key: (row) => row.opsets[0], show: (row) => cell(opsetRanges(row.opsets)) },
        { name: "others right", class: "number", title: "Of the other runtimes that ran the same model, how many are right", key: (row) => row.others ? row.right / row.others : -1, show: (row) => numberCell(row.others ? `${row.right} of ${row.others}` : "no other") },
        { name: "stage and reason", show: (row) => cell(`${stageName(row.stage)}${row.blame ? ` (${row.blame})` : ""}: ${row.reason}`, { class: "by" }) },
      ],
    });
    if (unlisted) claimed.append(h("p", { class: "note" }, `${thousands(unlisted)} more are not listed. parity scoreboard --all prints them.`));
  } else {
    claimed.append(h("p", { class: "note" }, "Nothing: what the runtimes ran, they got right, or they said that they could not."));
  }

  const found = new Map();
  const keyOf = (of, subject) => JSON.stringify([of, subject]);
  for (const each of findings) found.set(keyOf(each.of, each.subject), [...found.get(keyOf(each.of, each.subject)) ?? [], each]);
  const reasonsOf = (of, subject, opset) => (found.get(keyOf(of, subject)) ?? []).filter((each) => each.opsets.includes(opset))
    .map((each) => [looks[each.ending], stageName(each.stage), `${each.case} ${each.dtype}`, each.reason]);

  // A row for each operator and runtime. Those of an operator stand together, and what is claimed but wrong comes first.
  const opsets = [...new Set(rows.flatMap((row) => row.scores.flatMap(([, ends]) => ends.flatMap(([, , at]) => at))))].sort((a, b) => a - b);
  const gravest = (row) => Math.min(...row.scores.flatMap(([, ends]) => ends.map(([which]) => which)));
  const differ = (row) => new Set(row.scores.map(([, ends]) => JSON.stringify(ends.map(([which, , at]) => [which, at])))).size > 1;
  const ordered = [...rows].sort((a, b) => Math.min(gravest(a), grave) - Math.min(gravest(b), grave));
  const lines = ordered.flatMap((row) => {
    const [kind, family, name] = row.of;
    const unlike = differ(row);
    return row.scores.map(([subject, ends]) => {
      const squares = new Map();
      for (const opset of opsets) {
        const here = ends.filter(([, , at]) => at.includes(opset)).map(([which]) => which).sort((a, b) => a - b);
        if (!here.length) continue;
        const partly = here[0] === UNSUPPORTED_BY_IT && here.includes(RIGHT);
        const reasons = reasonsOf(row.of, subject, opset);
        squares.set(opset, { state: partly ? PARTLY : looks[here[0]], summary: here.map((which) => endings[which]).join(", "), some: false, reasons: reasons.slice(0, 5), more: Math.max(0, reasons.length - 5) });
      }
      const cells = ends.reduce((sum, [, number]) => sum + number, 0);
      const [, right] = ends.find(([which]) => which === RIGHT) ?? [0, 0];
      return {
        label: name, group: subjects[subject], text: `${name} ${family} ${subjects[subject]}`, squares, since: rightSince(squares), cells, right, unlike,
        go: caseAddress({ kind, family, name }), goTo: (opset) => caseAddress({ kind, family, name }, { opset }),
      };
    });
  });
  const each = part("each", "By operator, runtime and opset", "claimed but wrong first");
  each.dataset.main = "endings";
  grid(each, {
    id: "endings", title: "Operators and models with each runtime", noun: "row", first: "operator", second: "runtime", opsets, rows: lines, words,
    filters: [
      { key: "with", name: "runtime", values: subjects, holds: (row, value) => row.group === value },
      { key: "show", name: "show", values: ["only where they differ"], holds: (row) => row.unlike },
    ],
    last: { name: "right", class: "number", title: "How many of its cells are right", key: (row) => row.right / row.cells, show: (row) => numberCell(`${thousands(row.right)} of ${thousands(row.cells)}`) },
  });
}));
