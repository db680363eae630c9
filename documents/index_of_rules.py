"""`exporter/registry/index.txt`: which file has which rules of operators, as it follows from the rules."""

from __future__ import annotations

from pathlib import Path

from onnx_parity.exporter.registry import rules

__all__ = ["INDEX", "index"]

INDEX = Path(rules.__file__).with_name("index.txt")


def index() -> str:
    """The text of the file: a line for each file and aspect, with the names of the rules."""
    exporter = INDEX.parents[1]
    names: dict[tuple[str, str], set[str]] = {}
    for rule in rules.all_rules():
        file = Path(rule.declared[0]).relative_to(exporter)
        module = ".".join(file.with_suffix("").parts)
        names.setdefault((module, rule.aspect.name), set()).add(rule.name)
    return "".join(f"{module} {aspect} {' '.join(sorted(each))}\n" for (module, aspect), each in sorted(names.items()))
