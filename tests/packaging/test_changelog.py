"""CHANGELOG.md and changelog.d/: each change has a known type, since towncrier leaves out a file that has none."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import onnx_parity
import start

ROOT = Path(start.__file__).parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
TYPES = [each["directory"] for each in SETTINGS["type"]]


def without_type(names: list[str]) -> list[str]:
    """The names that are not of the form `+a-few-words.TYPE.md`."""
    return [name for name in names if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(TYPES)})\.md", name)]


def test_every_change_has_a_known_type() -> None:
    names = [path.name for path in (ROOT / SETTINGS["directory"]).iterdir()]
    assert without_type(names) == ["README.md"]
    assert without_type(["+a-word.added.md", "+a-word.news.md", "a-word.added.md"]) == [
        "+a-word.news.md",
        "a-word.added.md",
    ]


def test_the_types_are_named_to_contributors() -> None:
    for page in ("CONTRIBUTING.md", "changelog.d/README.md"):
        assert all(f"`{each}`" in (ROOT / page).read_text() for each in TYPES), page


def test_the_newest_release_is_that_of_the_package() -> None:
    text = (ROOT / SETTINGS["filename"]).read_text()
    newest = re.search(r"^<!-- towncrier release notes start -->\n\n## ([\d.]+),", text, flags=re.MULTILINE)
    assert newest and newest[1] == onnx_parity.__version__
