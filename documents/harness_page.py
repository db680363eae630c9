"""docs/harness_reference.md: what declarations are written with, the options of the matrix, and every command."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from documents.api_page import entry

__all__ = ["command_lines", "commands", "page", "vocabulary"]

_HEAD = """# Reference of the harness

What files of declarations are written with, the options of the matrix, and every command of `parity`. Written by
`python -m documents pages`. [your_own_cases.md](your_own_cases.md) is the page to begin with.
"""
_DECLARATIONS = """## Declarations

`from onnx_parity.harness.case import floats, op` imports what is needed; a declaration is a public name of a file, to
which `op(...)` or `model(...)` is assigned. Every list among the keywords makes a case of each of its values.
"""
_SETS = "Sets of dtypes for `dtypes=`: {}. `BATCH` makes the first axis of the only input dynamic, `BATCHES` of both.\n"
_OPTIONS = """## Options of the matrix

`parity run`, `parity list` and `pytest` take them. In `pytest` they have the prefix `--parity-`; where declarations are
run, the names without it work as well.
"""
_COMMANDS = "## Commands\n\n`parity COMMAND --help` prints the same, with examples.\n"


def vocabulary() -> dict[str, Any]:
    """The functions and constants of `onnx_parity.harness.case` by name; its other names are types."""
    from onnx_parity.harness import case

    return {name: getattr(case, name) for name in case.__all__ if name.islower() or name.isupper()}


def commands() -> Mapping[str, Any]:
    """The commands of `parity` by name, in the order of its help."""
    from onnx_parity.harness.cli import COMMANDS, load_command

    return {name: load_command(name) for name in COMMANDS}


def command_lines() -> Iterator[str]:
    """Each command with each of its options: `parity gate --baseline`."""
    for name, command in commands().items():
        yield f"parity {name}"
        for parameter in command.params:
            yield from (
                f"parity {name} {each}" for each in parameter.opts if each.startswith("--") and each != "--help"
            )


def page() -> str:
    from onnx_parity.harness.pytest_plugin.options import OPTIONS

    names = vocabulary()
    lines = [_HEAD, _DECLARATIONS]
    # `op` and `model` are objects of one class, that are called.
    lines += entry("op", type(names.pop("op")).__call__, "###")
    lines.append("### model\n\nHas the parameters of `op`. Its program is what constructs the module.\n")
    for name in sorted(names.keys() - {"model"}):
        if inspect.isfunction(names[name]):
            lines += entry(name, names[name], "###")
    sets = ", ".join(f"`{name}`" for name in sorted(names) if name.isupper() and "BATCH" not in name)
    lines.append(f"{_filled(_SETS.format(sets))}\n")
    lines.append(_OPTIONS)
    lines += [_item(f"--{name}", attributes["help"]) for name, attributes in OPTIONS.items()]
    lines += ["", _COMMANDS]
    for name, command in commands().items():
        purpose = command.help.partition("\n\n")[0]
        lines += [f"### parity {name}\n", f"{_filled(purpose)}\n"]
        told = [(", ".join(each.opts), each.help) for each in command.params if getattr(each, "help", None)]
        lines += [_item(words, text) for words, text in told if words != "--help"]
        lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _item(words: str, text: str) -> str:
    return _filled(f"- `{words}`: {text}", under="  ")


def _filled(text: str, under: str = "") -> str:
    """The text in lines of 120 characters."""
    told = " ".join(text.split())
    return textwrap.fill(told, 120, subsequent_indent=under, break_long_words=False, break_on_hyphens=False)
