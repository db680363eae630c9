"""Finds the operator that somebody means: by its own name, or by that of a function or module of torch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from onnx_parity.exporter.registry.rules import all_rules
from onnx_parity.harness.cases.declarations import declared_in_file
from onnx_parity.harness.project import files_of

__all__ = [
    "NAMESPACES",
    "OperatorName",
    "UnknownOperatorError",
    "base_of",
    "find_operator",
    "import_own_operators",
    "is_known",
]

#: Where a name without a namespace is looked for.
NAMESPACES = ("aten", "onnx_parity", "prims", "quantized", "torchvision", "prim")


#: What a file that registers operators or lowerings names.
_REGISTERING = (
    "torch.library",
    "onnx_parity.lowering",
    "import lowering",
    "TORCH_LIBRARY",
    "register_custom_op_symbolic",
)


class UnknownOperatorError(ValueError):
    """There is no operator of a name. The message has similar names."""


class OperatorName(NamedTuple):
    namespace: str
    base: str
    #: Empty for all overloads.
    overload: str = ""

    @property
    def plain(self) -> str:
        """The base of the form that writes to nothing: `index_put` of `aten::index_put_`."""
        return base_of(f"{self.namespace}::{self.base}")

    def __str__(self) -> str:
        return f"{self.namespace}::{self.base}" + (f".{self.overload}" if self.overload else "")


def find_operator(text: str) -> OperatorName:
    """The operator of `aten::narrow`, `aten::max.dim`, `narrow`, `torch.linalg.eigh`, `F.glu` or `nn.GLU`."""
    found = _read(text)
    known = _known()
    if found is None:
        module, _, base = text.rpartition(".")
        # torch.linalg.eigh calls aten::linalg_eigh.
        in_module = f"{module.rpartition('.')[2]}_{base}"
        for name in (in_module, base, base.lower(), re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", base).lower()):
            for namespace in NAMESPACES:
                if (namespace, name) in known:
                    return OperatorName(namespace, name)
    elif (found.namespace, found.base) in known:
        return found
    raise UnknownOperatorError(f"There is no operator {text}. {_similar(text, known)}")


def is_known(text: str) -> bool:
    """Whether there is an operator of this name."""
    with suppress(UnknownOperatorError):
        return bool(find_operator(text))
    return False


def import_own_operators(places: Iterable[Path]) -> None:
    """Import the files of declarations that may register operators, or lowerings."""
    for file in (each for place in places for each in files_of(place)):
        if any(word in file.read_text("utf-8", "replace") for word in _REGISTERING):
            for _ in declared_in_file(file):
                pass


def _read(text: str) -> OperatorName | None:
    """A name with a namespace, also as `torch.ops` has it."""
    if "::" in text:
        namespace, _, rest = text.partition("::")
        base, _, overload = rest.partition(".")
        return OperatorName(namespace, base, overload)
    if text.startswith("torch.ops."):
        namespace, base, overload, *_ = f"{text}...".removeprefix("torch.ops.").split(".")
        return OperatorName(namespace, base, "" if overload == "default" else overload)
    return None


def _known() -> frozenset[tuple[str, str]]:
    """The namespaces and names of all operators, and of functions of torch that have rules."""
    found = set()
    for name in (*torch._C._dispatch_get_all_op_names(), *(rule.name for rule in all_rules())):
        namespace, colons, rest = name.partition("::")
        found.add((namespace, rest.partition(".")[0]) if colons else ("aten", base_of(name)))
    return frozenset(found)


def base_of(name: str) -> str:
    """`narrow` of `aten::narrow.Tensor`, `aten::narrow_` and `torch.Tensor.narrow`."""
    _, colons, rest = name.partition("::")
    base = rest.partition(".")[0] if colons else name.rpartition(".")[2]
    return base if base.startswith("__") else base.removesuffix("_")


def _similar(text: str, known: Collection[tuple[str, str]]) -> str:
    base = base_of(text).lower()
    near = difflib.get_close_matches(base, sorted({name for _, name in known}))
    if near:
        return f"Similar names: {', '.join(near)}."
    own = " An operator of your own is known where a file of declarations registers it: name that file too."
    return "Names are written as aten::narrow, torch.narrow or nn.GLU." + (own if "::" in text else "")
