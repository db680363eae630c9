"""What is public, as a list of names and parameters, to be compared with that of the last release."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from documents.harness_page import command_lines, vocabulary

__all__ = ["RELEASED", "broken", "signatures"]

#: The list of the last release, which `python -m documents released` writes.
RELEASED = Path(__file__).with_name("released_api.txt")
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def signatures() -> list[str]:
    """Each public name and each of its parameters, sorted: `export`, `export(3: export_params=)`.

    A parameter that may be given by position has its number, one with a default an equals sign at its end.
    """
    import onnx_parity

    found: list[str] = []
    for name in onnx_parity.__all__:
        value = getattr(onnx_parity, name)
        found += _lines(name, value)
        if isinstance(value, ModuleType):
            for each in value.__all__:
                found += _lines(f"{name}.{each}", getattr(value, each))
    for name, value in vocabulary().items():
        found += _lines(f"harness.case.{name}", value)
    found += command_lines()
    return sorted(set(found))


def _lines(name: str, value: Any) -> Iterator[str]:
    yield name
    if not inspect.isclass(value):
        yield from _parameters(name, value) if callable(value) else ()
        return
    # Other classes are made by the package, and only caught or used by its callers.
    if is_dataclass(value):
        yield from _parameters(name, value)
    for member, own in vars(value).items():
        if member.startswith("_") and member != "__call__":
            continue
        function = own.__func__ if isinstance(own, classmethod | staticmethod) else own
        if inspect.isfunction(function):
            yield f"{name}.{member}"
            yield from _parameters(f"{name}.{member}", function)
        elif isinstance(own, property | cached_property | enum.Enum):
            yield f"{name}.{member}"


def _parameters(name: str, function: Any) -> Iterator[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # What is written in C has none.
        return
    for number, each in enumerate(each for each in parameters if each.name != "self"):
        if each.name.startswith("_"):
            continue
        place = f"{number}: " if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) else ""
        yield f"{name}({place}{_STARS.get(each.kind, '')}{each.name}{'=' if each.default is not each.empty else ''})"


def broken(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """What breaks programs that were written for an earlier list: what is gone, and parameters that are new and needed.

    A parameter may get a default.
    """
    here, names = set(now), {line for line in before if "(" not in line}
    gone = [line for line in before if line not in here and f"{line[:-1]}=)" not in here]
    required = [
        line for line in now
        if line.endswith(")") and not line.endswith("=)") and "*" not in line
        and line.partition("(")[0] in names and line not in before
    ]  # fmt: skip
    return [*(f"gone: {line}" for line in gone), *(f"new and needed: {line}" for line in required)]
