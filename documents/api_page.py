"""docs/api.md: every public name of `onnx_parity` with its signature and its docstring."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

__all__ = ["entry", "page"]

_HEAD = """# Reference

Written by `python -m documents pages` from the docstrings of `onnx_parity`.
"""
#: These come first, in this order; the others follow by name.
_FIRST = ("export", "ONNXProgram", "capture_program", "Capture", "ExternalData", "OperatorExportTypes", "TrainingMode")
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_ARGUMENT = re.compile(r"^    (\w+): (.*)$")


def page() -> str:
    import onnx_parity

    names = [*_FIRST, *sorted(name for name in onnx_parity.__all__ if name not in _FIRST)]
    parts = [(name, getattr(onnx_parity, name)) for name in names]
    errors = [part for part in parts if inspect.isclass(part[1]) and issubclass(part[1], Exception)]
    modules = [part for part in parts if isinstance(part[1], ModuleType)]
    others = [part for part in parts if part not in errors and part not in modules]
    lines = [_HEAD]
    for name, found in others:
        lines += entry(f"onnx_parity.{name}", found)
    for name, module in modules:
        lines += [f"## onnx_parity.{name}\n", _prose(module), ""]
        for each in module.__all__:
            lines += entry(f"onnx_parity.{name}.{each}", getattr(module, each), "###")
    lines.append("## Errors and warnings\n")
    lines += [f"- `onnx_parity.{name}` ({found.__bases__[0].__name__}): {_prose(found)}" for name, found in errors]
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, found: Any, level: str = "##") -> Iterator[str]:
    """A name with its signature and its docstring."""
    yield f"{level} {name}\n"
    if inspect.isclass(found) and issubclass(found, enum.Enum):
        yield f"{_prose(found)}\n"
        yield ", ".join(f"`{member}`" for member in found.__members__) + "\n"
        return
    if not inspect.isclass(found) or is_dataclass(found):
        yield f"```python\n{name.rpartition('.')[2]}{_signature(found)}\n```\n"
    yield f"{_prose(found)}\n"
    if inspect.isclass(found):
        for member, value in vars(found).items():
            if (member.startswith("_") and member != "__call__") or not inspect.getdoc(value):
                continue
            function = value.__func__ if isinstance(value, classmethod) else value
            if inspect.isfunction(function):
                yield f"- `.{member}{_on_one_line(_signature(function))}`: {_indented(_prose(function))}"
            elif isinstance(value, property):
                yield f"- `.{member}`: {_indented(_prose(value))}"
        yield ""


def _on_one_line(signature: str) -> str:
    return " ".join(signature.split()).replace("( ", "(").replace(", )", ")")


def _indented(text: str) -> str:
    """The text as an item of a Markdown list."""
    return text.replace("\n\n", "\n").replace("\n", "\n  ")


def _signature(found: Any) -> str:
    signature = inspect.signature(found)
    parts: list[str] = []
    keywords_only = False
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords_only = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not keywords_only:
            parts.append("*")
            keywords_only = True
        parts.append(_parameter(parameter))
    returned = _annotation(signature.return_annotation)
    result = f" -> {returned}" if returned and not inspect.isclass(found) else ""
    line = f"({', '.join(parts)}){result}"
    if len(line) < 100:
        return line
    separator = ",\n    "
    return f"(\n    {separator.join(parts)},\n){result}"


def _parameter(parameter: inspect.Parameter) -> str:
    annotation = _annotation(parameter.annotation)
    text = f"{_STARS.get(parameter.kind, '')}{parameter.name}{f': {annotation}' if annotation else ''}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    # The repr of a function contains its address, that of an enum member its value.
    name = str(default) if isinstance(default, enum.Enum) else getattr(default, "__name__", repr(default))
    return f"{text} = {name}"


def _annotation(annotation: Any) -> str:
    return "" if annotation is inspect.Signature.empty else str(annotation)


def _prose(found: Any) -> str:
    """A docstring as Markdown. The arguments under `Args:` become a list."""
    lines: list[str] = []
    for line in (inspect.getdoc(found) or "").splitlines():
        match = _ARGUMENT.match(line)
        if match:
            lines.append(f"- `{match[1]}`: {match[2]}")
        elif line in ("Args:", "Returns:"):
            lines.append(f"**{line.removesuffix(':')}**\n")
        else:
            # Continuation lines of an argument or of what is returned.
            lines.append(line.replace("        ", "  ", 1).removeprefix("    "))
    return "\n".join(lines)
