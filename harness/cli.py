"""The `parity` command: its subcommands, each defined in a file of `commands/`, most used first.

A command is a thin layer over a module that does not depend on the terminal, and imports only light modules at its top,
so that `parity --help` takes 0.4 s. Every command has examples in its help, and `--json`. `OSError` and interrupts are
reported here in one line, for all commands.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from onnx_parity import __version__
from onnx_parity.harness.commands.bisect import bisect
from onnx_parity.harness.commands.coverage import coverage
from onnx_parity.harness.commands.doctor import doctor
from onnx_parity.harness.commands.expect import expect
from onnx_parity.harness.commands.export import export
from onnx_parity.harness.commands.exporters import exporters
from onnx_parity.harness.commands.findings import findings
from onnx_parity.harness.commands.gate import gate
from onnx_parity.harness.commands.init import init
from onnx_parity.harness.commands.judge import judge
from onnx_parity.harness.commands.list_cases import list_cases
from onnx_parity.harness.commands.localise import localise
from onnx_parity.harness.commands.merge import merge
from onnx_parity.harness.commands.node_tests import node_tests
from onnx_parity.harness.commands.operator import operator
from onnx_parity.harness.commands.opinfo_survey import survey
from onnx_parity.harness.commands.pack import pack
from onnx_parity.harness.commands.query import query
from onnx_parity.harness.commands.range import range_of_values
from onnx_parity.harness.commands.reduce import reduce as reduce_cell
from onnx_parity.harness.commands.report import report
from onnx_parity.harness.commands.repro import repro
from onnx_parity.harness.commands.run import run
from onnx_parity.harness.commands.scoreboard import scoreboard
from onnx_parity.harness.commands.search import search
from onnx_parity.harness.commands.sensitivity import sensitivity
from onnx_parity.harness.commands.show import show
from onnx_parity.harness.commands.terminal import refuse

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


class _Commands(TyperGroup):
    """Ends a command that was interrupted, or that met a system error, with one line and exit code 2.

    Python would print a traceback and exit with 1, which means here that there are findings.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _REPLACED:
            refuse(f"`parity {cmd_name}` was removed: {_REPLACED[cmd_name]}.")
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            refuse("stopped")
        except BrokenPipeError:
            raise  # The reader of the output has ended, as in `parity list | head`. Typer ends without a message.
        except OSError as error:
            refuse(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))


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


app.command()(export)
app.command()(show)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run)
app.command("list")(list_cases)
app.command()(init)
app.command()(report)
app.command()(query)
app.command()(operator)
app.command()(exporters)
app.command("range")(range_of_values)
app.command()(scoreboard)
app.command()(repro)
app.command()(localise)
app.command("reduce")(reduce_cell)
app.command()(bisect)
app.command()(expect)
app.command()(gate)
app.command()(merge)
app.command()(sensitivity)
app.command()(search)
app.command()(findings)
app.command()(doctor)
app.command("node-tests")(node_tests)
app.command()(pack)
app.command()(coverage)
app.command()(judge)
app.command("opinfo-survey")(survey)
