"""The `parity` command: its subcommands, each defined in a file of `commands/`.

A command is a thin layer over a module that does not depend on the terminal, and is imported when it is used, so that
`parity --help` takes 0.3 s; it imports only light modules at its top. Every command has examples in its help, and
`--json`. `OSError`, mistakes in declarations and interrupts are reported here in one line, for all commands.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import onnx_parity
from onnx_parity import __version__
from onnx_parity.harness.commands.terminal import refuse
from onnx_parity.harness.declaration_error import DeclarationError

#: The commands, most used first, with what `parity --help` says of each.
COMMANDS = {
    "export": "Export a PyTorch model to an ONNX file.",
    "show": "Print an ONNX file: its graph, its size, and the conditions under which it is right.",
    "run": "Run cells of the matrix and write the HTML report.",
    "list": "List the declared cases, and how many cells of each the tier runs.",
    "init": "Begin to test operators and models of your own, in this folder.",
    "report": "Write the HTML report of a run.",
    "query": "Print the cells of a run that satisfy a condition.",
    "operator": "Print all that is known of an operator: schemas, rules, outcomes, cases.",
    "exporters": "Compare the outcomes of several exporters, opset by opset and operator by operator.",
    "range": "Find values in a float32 model that float16 and bfloat16 cannot hold, and write it in half.",
    "scoreboard": "Show what each runtime makes of the models of a run.",
    "repro": "Run one cell and write a bundle that reproduces it.",
    "localise": "Find the first operator of a failing cell that diverges.",
    "reduce": "Reduce a failing cell's program to the few operators that still fail.",
    "bisect": "Find out which release of a distribution broke something, and which one mended it.",
    "expect": "Show the smallest edits with which the lists of known failures agree with a run.",
    "gate": "Compare a run with a baseline, and fail if it is worse.",
    "merge": "Merge the shards of a run into a new run.",
    "sensitivity": "List what the declared cases of operators could not tell if it were done wrong.",
    "search": "Generate programs, and look for wrong results, errors and crashes.",
    "findings": "List the known defects of other software, run them again, or write the text of an issue.",
    "doctor": "Check this installation: what is missing, what needs it, and how to get it.",
    "node-tests": "Run ONNX's own node tests on the runtimes and count the outcomes.",
    "pack": "Write tests as files that any runtime can run.",
    "coverage": "Show how much of ONNX the cases of `op_cases/onnx/` cover.",
    "judge": "Judge what a runtime returned for the tests of a pack.",
    "opinfo-survey": "Write down which samples of torch's databases of operators are usable.",
}
#: The files of `commands/`, and their functions, whose names are not those of their commands.
_PLACES = {
    "list": ("list_cases", "list_cases"),
    "range": ("range", "range_of_values"),
    "node-tests": ("node_tests", "node_tests"),
    "opinfo-survey": ("opinfo_survey", "survey"),
}
#: Commands that pass on the options that they do not know.
_PASSING_ON = {"run"}

#: Earlier commands, and what to use instead.
_REPLACED = {
    "attach": "`parity run --follow JOB --on http://HEAD:8265` follows a run that was sent to a cluster",
    "submit": "`parity run --on http://HEAD:8265` sends a run to a cluster",
    "compare": "run the samples with `parity run op_cases/opinfo.py op_cases/operator_database.py --samples 4 "
    "--exporters parity,torch_dynamo,torch_script`, which prints the comparison, as `parity exporters` does again",
    "documents": "`python -m documents` writes the generated pages of the documentation, in a clone of the project",
    "operators": "`parity report --operators docs/operators.md` writes the page",
    "torchscript": "`parity report --torchscript docs/torchscript.md` writes the page",
    "versions": "`python -m documents versions` writes the page, in a clone of the project",
}


def load_command(name: str) -> Any:
    """The command of this name, whose file is imported."""
    file, function = _PLACES.get(name, (name, name))
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    settings = {"allow_extra_args": True, "ignore_unknown_options": True} if name in _PASSING_ON else None
    called = getattr(import_module(f"onnx_parity.harness.commands.{file}"), function)
    alone.command(name, context_settings=settings)(called)
    return get_command(alone)


class _Commands(TyperGroup):
    """Imports the command that is used, and only that one.

    A command that was interrupted, or that met a system error, ends with one line and exit code 2. Python would print a
    traceback and exit with 1, which means here that there are findings.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _REPLACED:
            refuse(f"`parity {cmd_name}` was removed: {_REPLACED[cmd_name]}.")
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        _refuse_two_packages()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            refuse("stopped")
        except BrokenPipeError:
            raise  # The reader of the output has ended, as in `parity list | head`. Typer ends without a message.
        except DeclarationError as error:
            refuse(str(error))
        except OSError as error:
            refuse(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))


def _refuse_two_packages() -> None:
    """Refuse to run the installed package in a clone: pytest looks into the current folder, and would import both."""
    here = Path.cwd() / "onnx_parity" / "__init__.py"
    installed = Path(str(onnx_parity.__file__))
    if here.is_file() and here.resolve() != installed.resolve():
        refuse(
            f"{Path.cwd()} has the package onnx_parity, as a clone of the project does, and this command is of "
            f"{installed.parent}: pytest would import files of both. Install the clone, pip install -e '.[harness]', "
            "or go to another folder."
        )


app = typer.Typer(
    name="parity", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"onnx-parity {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Export PyTorch models to ONNX at every opset, and test the exports against PyTorch.

    Start with `parity run --tier smoke`: it takes a few minutes and writes an HTML report.

    Exit codes of every command: 0 if nothing is wrong; 1 if there are findings, such as a cell that fails; 2 if the
    command was used wrongly, had nothing to do, or was stopped. `parity run` ends with 3 if pytest itself failed.
    """


def _only_named() -> None:
    """What stands for a command in the list of all, until it is used."""


for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(_only_named)
