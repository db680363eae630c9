"""A report as one file, to be mailed: its pages, scripts and data within one page of HTML.

Only its own scripts may run: the content security policy of the page names each by the hash of its text. One of them,
`static/single.js`, shows the page that the address names and then runs the scripts of that page.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html import escape
from pathlib import Path

import msgspec

from onnx_parity.reports.pieces import FOLDER

_SHOWS_PAGES = Path(__file__).parent / "static" / "single.js"
_PARTS = re.compile(
    r"<title>(?P<title>.*?)</title>.*?(?P<header><header.*?</header>)\s*<main id=\"main\">(?P<main>.*?)</main>\s*"
    r"(?P<footer><footer>.*?</footer>)",
    re.DOTALL,
)
_SCRIPT = re.compile(r'<script defer src="static/(\w+)\.js"></script>')
_PIECE = re.compile(r'piece\("(.*)","(.*)"\);\n')


def write_single_file(folder: Path, out: Path) -> int:
    """Write the report in a folder into one file, and return its size in bytes."""
    pages: dict[str, dict[str, object]] = {}
    around: dict[str, str] = {}
    for path in sorted(folder.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        parts = _PARTS.search(text)
        assert parts is not None, f"{path} is not a page of a report"
        pages[path.name] = {"title": parts["title"], "main": parts["main"], "scripts": _SCRIPT.findall(text)}
        around = parts.groupdict()
    icon = base64.b64encode((folder / "static" / "icon.svg").read_bytes()).decode("ascii")
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / "static").glob("*.js"))}
    shows_pages = _SHOWS_PAGES.read_text(encoding="utf-8")
    style = (folder / "static" / "report.css").read_text(encoding="utf-8")
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        file.write(_head(style, [*scripts.values(), shows_pages], icon))
        file.write(
            f'<body>\n{around["header"]}\n<main id="main"></main>\n{around["footer"]}\n'.replace(
                'src="static/icon.svg"', f'src="data:image/svg+xml;base64,{icon}"'
            )
        )
        file.write(_data("pages", msgspec.json.encode(pages).decode().replace("<", "\\u003c")))
        for name, text in scripts.items():
            file.write(_data(f"script-{name}", msgspec.json.encode(text).decode().replace("<", "\\u003c")))
        for path in sorted((folder / FOLDER).glob("*.js")):
            piece = _PIECE.fullmatch(path.read_text(encoding="ascii"))
            assert piece is not None, f"{path} is not a piece"
            file.write(_data(f"piece-{piece[1]}", piece[2]))
        file.write(f"<script>{shows_pages}</script>\n</body>\n</html>\n")
    return out.stat().st_size


def _head(style: str, scripts: list[str], icon: str) -> str:
    allowed = " ".join(map(_hashed, scripts))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_hashed(style)}; style-src-attr 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en" data-one-file="1">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ONNX Parity</title>
<link rel="icon" href="data:image/svg+xml;base64,{icon}">
<style>{style}</style>
</head>
"""


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode('ascii')}'"


def _data(name: str, text: str) -> str:
    """A script that no browser runs, which holds data."""
    return f'<script type="text/plain" id="{name}">{text}</script>\n'
