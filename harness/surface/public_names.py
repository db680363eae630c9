"""What there is to be covered: the public names of the installed PyTorch, its ATen operators, and ONNX's operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from onnx_parity.harness.cases.opinfo_entries import EXCLUDED, Database, read_survey, survey_path


class PublicName(msgspec.Struct, frozen=True):
    """A name, and if no case of a run has it, why that may be."""

    name: str
    why_not: str = ""


class NameGroup(msgspec.Struct, frozen=True):
    """The names of one kind. `kind` is where a record has them: `calls`, `aten`, `onnx`, or its case (`entries`)."""

    title: str
    kind: str
    names: list[PublicName]


def names_for(run: Path) -> list[NameGroup]:
    """The names, which are written to a file in the run's folder: importing torch takes as long as a report."""
    file = run / "names.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[NameGroup])
    except (OSError, msgspec.DecodeError):
        groups = list(_groups())
    try:
        file.write_bytes(msgspec.json.encode(groups))
    except OSError:
        # A run on a disk that cannot be written to is asked for its names each time.
        return groups
    return groups


def _groups() -> Iterator[NameGroup]:
    import torch

    functional = torch.nn.functional
    yield _calls("torch.nn.functional", _functions(functional, lambda each: _is_function_of(each, functional.__name__)))
    yield _calls("torch.nn", (name for name, each in inspect.getmembers(torch.nn, inspect.isclass) if _is_module(each)))
    yield _calls("torch.Tensor", _functions(torch.Tensor, callable))
    yield _calls("torch", _functions(torch, inspect.isbuiltin))
    for place in (torch.linalg, torch.fft, torch.special):
        yield _calls(place.__name__, _functions(place, inspect.isbuiltin))
    yield from _aten()
    yield from _databases()
    yield NameGroup("ONNX operators by version", "onnx", [PublicName(name) for name in _onnx()])


def _calls(place: str, names: Iterable[str]) -> NameGroup:
    return NameGroup(place, "calls", [PublicName(f"{place}.{name}") for name in sorted(set(names))])


def _functions(of: object, counts: Callable[[object], bool]) -> Iterator[str]:
    return (name for name in dir(of) if not name.startswith("_") and counts(getattr(of, name, None)))


def _is_function_of(each: object, module: str) -> bool:
    return inspect.isbuiltin(each) or (inspect.isfunction(each) and each.__module__ == module)


def _is_module(each: type) -> bool:
    import torch

    return issubclass(each, torch.nn.Module)


def _aten() -> Iterator[NameGroup]:
    """ATen's operators without their overloads: the core set, and all others that are public."""
    import torch

    from onnx_parity.exporter import lowered_operators

    lowered = {name.partition(".")[0] for name in lowered_operators()}
    core: set[str] = set()
    names: set[str] = set()
    for qualified in torch._C._dispatch_get_all_op_names():
        name, _, overload = qualified.partition(".")
        if not name.startswith("aten::") or name.startswith("aten::_") or name.endswith("_backward"):
            continue
        names.add(name)
        found: Any = torch._C._get_operation_overload(name, overload)
        if found is not None and torch.Tag.core in found[2]:
            core.add(name)

    def group(title: str, wanted: set[str]) -> NameGroup:
        return NameGroup(title, "aten", [PublicName(name, _why_not_traced(name, lowered)) for name in sorted(wanted)])

    yield group("ATen, core set", core)
    yield group("ATen, all others", names - core)


def _databases() -> Iterator[NameGroup]:
    """The entries of torch's databases, by their surveys: to import the databases takes as long as a whole report."""
    for title, database in (("OpInfo entries", Database.OPERATORS), ("Modules of module_db", Database.MODULES)):
        surveyed = read_survey(survey_path(database.value.absolute()))
        unusable = {name: "torch has no sample of it that runs here" for name, usable in surveyed.items() if not usable}
        excluded = EXCLUDED if database is Database.OPERATORS else {}
        names = {**dict.fromkeys(surveyed, ""), **unusable, **excluded}
        if surveyed:
            yield NameGroup(title, "entries", [PublicName(name, names[name]) for name in sorted(names)])


def _why_not_traced(name: str, lowered: set[str]) -> str:
    if name in lowered:
        return "it has a lowering, which no case reached"
    if name.endswith(("_", "_copy")):
        return "in-place writes and copies of views are recorded as other operators"
    return "it has no lowering: torch decomposes it, or it cannot be exported"


def _onnx() -> Iterator[str]:
    import onnx.defs

    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda each: (each.name, each.since_version)):
        if not schema.domain and not schema.deprecated:
            yield f"{schema.name}@{schema.since_version}"
