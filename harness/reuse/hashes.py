"""What the outcome of a cell depends on, as two hashes: one that is known before its export, and one after it.

Before the export it is all that makes the model and what is expected of it: the exporter without the families of
operators, the harness, torch and the other packages, the machine, the seed, the cell and its declaration. After the
export, the model itself stands for the exporter, and what torch has computed is hashed beside it: so a change of the
exporter that changes no byte of a model changes nothing for its cells from the stage `check` on.

What is imported and read for a declaration, and which families its export asks for rules, is known only once a cell has
run. So it is no part of a hash: an outcome lists it (`Kept.depends`, `Kept.asked`), and is used only while it is the
same.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onnx_parity.harness.cases.installed import involved, states
from onnx_parity.harness.cases.watching import OF_THE_PROCESS
from onnx_parity.harness.judging.reference import Reference, Trial
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.one_line import plain
from onnx_parity.harness.results.content import contents, hash_declaration, list_imported, room_folder
from onnx_parity.harness.reuse.families import Families
from onnx_parity.harness.subjects.delivered import Delivered

__all__ = ["Grounds", "hash_of_texts", "noted_here"]

_DIGEST_BYTES = 16
#: Variables by which torch, onnxruntime and the libraries that they compute with choose how to compute.
_TELLING = (
    "ATEN_", "DNNL_", "GOTO_", "KMP_", "LD_PRELOAD", "MKL_", "OMP_", "ONEDNN_", "OPENBLAS_", "ORT_", "PYTORCH_",
    "TORCH_", "VECLIB_",
)  # fmt: skip
#: What `/proc/cpuinfo` says of a processor by which libraries choose their kernels.
_OF_PROCESSORS = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
#: The rooms of the harness whose code runs from the stage `check` on. What they import of the exporter does, too.
_FROM_CHECK_ON = ("harness/judging/", "harness/running/", "harness/subjects/", "harness/transformations/")
#: This calls the exporter, of which the model is the result.
_EXPORTING = "harness/subjects/exporters.py"


@dataclass(frozen=True)
class Grounds:
    """What all outcomes of a process depend on."""

    seed: int
    #: The files that the project names.
    data: tuple[Path, ...] = ()

    @cached_property
    def code(self) -> Mapping[str, str]:
        """The hash of each file of the exporter and the harness."""
        return contents((), self.data)

    @cached_property
    def families(self) -> Families:
        return Families(self.code)

    def prepare(self) -> None:
        """Compute what all hashes have in common, which takes a second. Forked processes have it then."""
        _ = self._with_the_exporter, self._without_the_exporter

    def before_export(self, cell: Cell) -> str:
        return hash_of_texts({"grounds": self._with_the_exporter, **_of_cell(cell)})

    def after_export(self, cell: Cell, aten: Iterable[str], delivered: Delivered, reference: Reference) -> str:
        trials = [reference.example, *filter(None, [reference.other_values, reference.with_nan])]
        trials += reference.other_sizes
        return hash_of_texts(
            {
                "grounds": self._without_the_exporter,
                **_of_cell(cell),
                # A failure names the operators.
                "aten": " ".join(aten),
                "model": _hash_model(delivered),
                "trials": _hash_trials(trials),
            }
        )

    @cached_property
    def _with_the_exporter(self) -> str:
        return hash_of_texts({**self._environment, **self.families.beside})

    @cached_property
    def _without_the_exporter(self) -> str:
        used = _used_from_check_on()
        code = {name: text for name, text in self.code.items() if not name.startswith("exporter/") or name in used}
        return hash_of_texts({**self._environment, **code})

    @cached_property
    def _environment(self) -> dict[str, str]:
        there = states()
        return {
            "seed": str(self.seed),
            "python": f"{sys.implementation.name} {sys.version}",
            "machine": " ".join((platform.system(), platform.machine(), *platform.libc_ver())),
            "processor": _processor(),
            **{f"package {name}": there.get(name, "") for name in involved()},
            **{f"${name}": value for name, value in os.environ.items() if name.startswith(_TELLING)},
        }


def hash_of_texts(texts: Mapping[str, str]) -> str:
    """A hash of texts with their names, in whatever order they are."""
    return hashlib.blake2b(ascii(sorted(texts.items())).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def noted_here() -> dict[str, str]:
    """What is no part of the hashes, and is named where it differs and an outcome does too."""
    there = {
        "the number of processors": str(os.cpu_count()),
        "the system": platform.platform(),
        "the working directory": str(Path.cwd()),
        **{f"package {name}": state for name, state in states().items() if name not in involved()},
        # Values may be secrets, and this is stored.
        **{
            f"the variable {name}": hash_of_texts({name: value})[:8]
            for name, value in os.environ.items()
            if not name.startswith(OF_THE_PROCESS)
        },
    }
    return {plain(name): plain(text) for name, text in there.items()}


def _of_cell(cell: Cell) -> dict[str, str]:
    case = cell.case
    return {"cell": cell.id, "source": hash_declaration(case.declaration.file, case.name)}


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.partition("\t")[0].partition(":")[0].strip() in _OF_PROCESSORS)


@cache
def _used_from_check_on() -> frozenset[str]:
    """The files of the exporter that run from the stage `check` on, and the files of the harness that lead there."""
    root = room_folder("harness").parent
    left = [name for name in contents() if name.startswith(_FROM_CHECK_ON)]
    seen = {_EXPORTING, "exporter/__init__.py"}
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            modules = list_imported(root / name)
            files = (file for module in modules for file in (f"{module}.py", f"{module}/__init__.py"))
            left += [file for file in files if file.startswith(("exporter/", "harness/")) and (root / file).exists()]
    return frozenset(seen - {"exporter/__init__.py"})


def _hash_model(delivered: Delivered) -> str:
    """Of a model in a file, all files in its folder: its weights are beside it."""
    model = delivered.model
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    if isinstance(model, bytes):
        hashed.update(model)
    else:
        for path in sorted(model.parent.rglob("*")):
            if path.is_file():
                hashed.update(f"{path.relative_to(model.parent)}\0{path.stat().st_size}\0".encode())
                with path.open("rb") as file:
                    while piece := file.read(1 << 20):
                        hashed.update(piece)
    return hashed.hexdigest()


def _hash_trials(trials: Iterable[Trial]) -> str:
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for trial in trials:
        hashed.update(f"{trial.which}\0".encode())
        for name, fed in trial.feeds.items():
            hashed.update(f"{name}\0".encode())
            _add(hashed, fed)
        for expected in trial.expected:
            for name in expected.__struct_fields__:
                hashed.update(f"{name}\0".encode())
                _add(hashed, getattr(expected, name))
    return hashed.hexdigest()


def _add(hashed: hashlib.blake2b, value: Any) -> None:
    """Add an array, a number of numpy, a list of these, or None to a hash."""
    if isinstance(value, np.ndarray | np.generic):
        hashed.update(f"{value.dtype} {value.shape}\0".encode())
        # The bytes of objects, such as strings, are only their addresses.
        hashed.update(repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes())
    elif isinstance(value, list):
        hashed.update(f"list {len(value)}\0".encode())
        for item in value:
            _add(hashed, item)
    else:
        assert value is None, f"{type(value).__name__} cannot be hashed"
        hashed.update(b"none\0")
