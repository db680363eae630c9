"""The installed distributions: their versions, a hash of their files' hashes, and the modules that they consist of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata

import msgspec

from onnx_parity.harness.extra import PACKAGES

#: On which every outcome depends, whatever is declared: the exporter's own and the harness's, and what is compared.
_INVOLVED = (
    "torch",
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxscript",
    "numpy",
    "ml-dtypes",
    "msgspec",
)


class Distribution(msgspec.Struct, frozen=True):
    """An installed distribution."""

    name: str
    version: str
    #: A hash of its RECORD, which lists a hash of each file; empty if it has none.
    content: str
    #: The first part of the paths of its files.
    tops: frozenset[str]
    requires: tuple[str, ...]

    @property
    def state(self) -> str:
        return f"{self.version} {self.content}".rstrip()


def normalise(name: str) -> str:
    """The name of a distribution in the only spelling that is compared: `onnx_ir` is `onnx-ir`."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def installed() -> dict[str, Distribution]:
    """The distributions by name. The first of a name is that which Python imports."""
    found: dict[str, Distribution] = {}
    for each in metadata.distributions():
        # `each.metadata` reads the long description too, which takes 4 ms.
        head = (each.read_text("METADATA") or each.read_text("PKG-INFO") or "").partition("\n\n")[0]
        fields = re.findall(r"^(Name|Version|Requires-Dist): (.*)$", head, re.MULTILINE)
        one = dict(fields)
        name = normalise(one.get("Name", ""))
        record = each.read_text("RECORD") or ""
        tops = frozenset(line.partition(",")[0].partition("/")[0] for line in record.splitlines())
        content = hashlib.blake2b(record.encode(), digest_size=8).hexdigest() if record else ""
        needs = (need for field, need in fields if field == "Requires-Dist" and "extra ==" not in need)
        requires = tuple(normalise(re.split(r"[^\w.-]", need, maxsplit=1)[0]) for need in needs)
        found.setdefault(name, Distribution(name, one.get("Version", ""), content, tops, requires))
    return found


def states() -> dict[str, str]:
    """The version and the content of each distribution."""
    return {name: each.state for name, each in installed().items()}


@cache
def owners() -> dict[str, frozenset[str]]:
    """The distributions that have files in a folder, or have a file, of a name in `site-packages`."""
    found: dict[str, set[str]] = {}
    for name, each in installed().items():
        for top in each.tops:
            found.setdefault(top, set()).add(name)
    return {top: frozenset(names) for top, names in found.items()}


def with_required(names: Iterable[str]) -> frozenset[str]:
    """Distributions with those that they require, as far as these are installed. Those of extras do not count."""
    return frozenset(_walk(names))


def _walk(names: Iterable[str]) -> Iterator[str]:
    left, seen = list(map(normalise, names)), set[str]()
    while left:
        name = left.pop()
        if name not in seen and name in installed():
            seen.add(name)
            yield name
            left += installed()[name].requires


@cache
def involved() -> frozenset[str]:
    """The distributions on which all outcomes depend."""
    return with_required((*_INVOLVED, *PACKAGES))
