"""The data of a report, apart from its pages: compressed pieces, which pages load when they need them.

A page that was opened from a disk may not fetch files, but may load scripts. So each piece is a script of one line,
`piece("cases-12", "...")`, with JSON compressed by raw deflate and written in base64.
"""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import msgspec

#: The version of the data's form, which `docs/reports.md` describes.
VERSION = 1
FOLDER = "data"


def write_piece(folder: Path, name: str, content: object) -> None:
    """Write a piece below the report's folder. `content` holds what JSON does."""
    (folder / FOLDER / f"{name}.js").write_text(script(name, content), encoding="ascii")


def script(name: str, content: object) -> str:
    """The script that carries a piece."""
    packed = zlib.compress(msgspec.json.encode(content), level=6, wbits=-zlib.MAX_WBITS)
    return f'piece({msgspec.json.encode(name).decode()},"{base64.b64encode(packed).decode("ascii")}");\n'


def read_piece(text: str) -> object:
    """The content of a script that `script` made."""
    packed = text.rpartition(',"')[2].removesuffix('");\n')
    content: object = msgspec.json.decode(zlib.decompress(base64.b64decode(packed), wbits=-zlib.MAX_WBITS))
    return content
