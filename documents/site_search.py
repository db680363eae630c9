"""The search of the site: what each section of a page says, and the script that looks words up in it.

A page that was opened from the disk may load a script beside it, but no data, so the sections are in a script, which
is loaded when the first reader types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markdown_it.token import Token

__all__ = ["FORM", "SECTIONS_FILE", "STYLE", "Section", "sections_of", "write_sections"]

SECTIONS_FILE = "sections.js"
#: What a line of the sections is called in the script.
_NAME = "SECTIONS"

STYLE = """\
search p { color: var(--soft); margin: .3rem 0 0; }
search input { width: 100%; padding: .35rem .5rem; border: 1px solid var(--soft); border-radius: 3px; font: inherit;
  background: var(--paper); color: inherit; }
search ol { list-style: none; padding: 0; margin: .5rem 0 1rem; } search li { margin-bottom: .6rem; }
search li span { display: block; color: var(--soft); font-size: .9em; overflow-wrap: anywhere; }
"""

FORM = """\
<search><label for="words">Search</label>
<input id="words" type="search" autocomplete="off" placeholder="Press / to search"><div role="status"></div></search>
<script>
{
  const field = document.getElementById("words"), shown = field.nextElementSibling;
  let sections = null;
  const load = () => sections ??= new Promise((done) => {
    const script = document.createElement("script");
    document.head.append(Object.assign(script, { src: "sections.js", onload: () => done(SECTIONS) }));
  });
  const add = (parent, name, textContent) =>
    parent.appendChild(Object.assign(document.createElement(name), { textContent }));
  const rank = (each, words) => {
    const heading = `${each.page} ${each.heading}`.toLowerCase(), text = each.text.toLowerCase();
    const whole = words.join(" ");
    if (!words.every((word) => heading.includes(word) || text.includes(word))) return 0;
    return 1 + 4 * heading.includes(whole) + 2 * words.every((word) => heading.includes(word)) + text.includes(whole);
  };
  const around = (text, words) => {
    const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const from = text.lastIndexOf(" ", Math.max(0, Math.min(...places, text.length) - 30)) + 1;
    return text.slice(from, from + 130).replace(/\\s\\S*$/, "");
  };
  field.addEventListener("focus", load, { once: true });
  field.addEventListener("input", async () => {
    const found = await load(), words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
    shown.replaceChildren();
    if (!words.length) return;
    const hits = found.map((each) => [rank(each, words), each]).filter(([much]) => much).sort(([a], [b]) => b - a);
    const few = hits.slice(0, 12), number = hits.length > 12 ? `12 of ${hits.length}` : hits.length;
    const none = `No section has ${words.length > 1 ? "all of these words" : "this word"}.`;
    add(shown, "p", hits.length ? `${number} section${hits.length === 1 ? "" : "s"}` : none);
    const list = add(shown, "ol", "");
    for (const [, hit] of few) {
      const item = add(list, "li", "");
      add(item, "a", hit.heading === hit.page ? hit.page : `${hit.page}: ${hit.heading}`).href = hit.address;
      add(item, "span", around(hit.text, words));
    }
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") shown.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || document.activeElement === field) return;
    event.preventDefault();
    field.focus();
  });
}
</script>
"""


@dataclass(frozen=True)
class Section:
    """What stands below one heading of a page."""

    page: str
    heading: str
    address: str
    text: str


def sections_of(page: str, address: str, tokens: Sequence[Token]) -> Iterator[Section]:
    """The sections of a page, whose headings have their anchors."""
    heading, place, text = page, address, ""
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            if text:
                yield Section(page, heading, place, text)
            heading, text = _text_of(tokens[number + 1]), ""
            place = f"{address}#{token.attrGet('id')}"
        elif token.type in ("inline", "fence") and tokens[number - 1].type != "heading_open":
            text += f"{_text_of(token)} "
    yield Section(page, heading, place, text)


def _text_of(token: Token) -> str:
    if not token.children:
        return " ".join(token.content.split())
    return "".join(" " if each.type == "softbreak" else each.content for each in token.children)


def write_sections(sections: Sequence[Section]) -> str:
    """The script that has the sections."""
    lines: list[Mapping[str, str]] = [vars(each) for each in sections]
    return f"const {_NAME} = {json.dumps(lines, ensure_ascii=False, separators=(',', ':'))};\n"
