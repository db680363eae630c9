"""The installed distributions: their versions, a hash of their files' hashes, and the modules that they consist of."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def _read_fields(distribution: metadata.Distribution) -> Mapping[str, Sequence[str]]:
    """The fields of a distribution's metadata: `distribution.metadata` takes 4 ms, for the long description too."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    fields = defaultdict[str, list[str]](list)
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(": ")
        fields[name].append(value)
    return fields


@cache
def installed() -> dict[str, Distribution]:
    """The distributions by name. The first of a name is that which Python imports."""
    found: dict[str, Distribution] = {}
    for each in metadata.distributions():
        fields = _read_fields(each)
        name = normalise("".join(fields["Name"]))
        record = each.read_text("RECORD") or ""
        tops = frozenset(line.partition(",")[0].partition("/")[0] for line in record.splitlines())
        content = hashlib.blake2b(record.encode(), digest_size=8).hexdigest() if record else ""
        needs = (need for need in fields["Requires-Dist"] if "extra ==" not in need)
        requires = tuple(normalise(re.split(r"[^\w.-]", need, maxsplit=1)[0]) for need in needs)
        found.setdefault(name, Distribution(name, "".join(fields["Version"]), content, tops, requires))
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
