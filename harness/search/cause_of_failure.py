"""The cause of a failure, by which failures of one kind become one finding."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onnx_parity.harness.search.generated import GeneratedProgram
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Fault, Point, deliver
from onnx_parity.harness.subjects.delivered import Delivered

#: ONNX operators that surround others, and name no cause unless they are alone.
_PLUMBING = frozenset(
    [
        "Cast", "Constant", "Identity", "Reshape", "Shape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Concat",
        "Gather", "Expand",
    ]
)  # fmt: skip
#: The functions that a line calls, without the value whose method one is, and the operators of Python in it.
_NAME = re.compile(r"(?:torch|F)\.[\w.]+(?=\()|(?<=\.)\w+(?=\()")
_SYMBOL = re.compile(r"(?<=[\w)\]] )(?://|\*\*|<<|>>|[<>=!]=|[-+*/%&|^@<>])(?= )|~")
#: What differs between errors of one cause: quoted names, names of nodes, paths, and numbers outside of words.
_DIFFERS = re.compile(
    r"""node name: [^)]*|Node \([^)]*\)|Name:'[^']*'|'[^']*'|"[^"]*"|/\S+|(?<![A-Za-z_\d])-?\d[\d.e+-]*"""
)


def of_message(detail: str) -> str:
    """An error without what differs from program to program: numbers, names in quotes, paths."""
    return re.sub(r"\s+", " ", _DIFFERS.sub("#", detail))[:160].strip()


def rough(program: GeneratedProgram, failure: Failure) -> str:
    """What is known of the cause before the program is reduced: failures that are alike in this are rarely two."""
    if failure.fault is Fault.WRONG:
        output = re.match(r"output (\d+)", failure.detail)
        name = program.outputs[int(output[1])] if output and int(output[1]) < len(program.outputs) else ""
        rules = [line.rule for line in program.lines if name in line.makes]
        return f"{failure.culprit}: {failure.fault}: {''.join(rules)}"
    return f"{failure.culprit}: {failure.fault}: {of_message(failure.detail)}"


def cause(subject: ProbedProgram, point: Point, failure: Failure) -> str:
    """The cause of the failure of a program that has been reduced."""
    if failure.fault is not Fault.WRONG:
        return f"{failure.culprit}: {of_message(failure.detail)}"
    if failure.culprit.startswith("torch: decompositions"):
        return f"{failure.culprit}: {failure.detail.partition(',')[0]}"
    if failure.culprit.startswith("onnx"):
        delivered = deliver(subject, point)
        if isinstance(delivered, Delivered):
            return f"{failure.culprit}: {_joined(_telling([node.op_type for node in delivered.nodes]))}"
    return f"{failure.culprit}: {_joined(list_called(subject.program))}"


def list_called(program: GeneratedProgram) -> list[str]:
    """The functions and operators that a program calls; of a line without any, the rule that has added it."""
    found = []
    for line in program.lines:
        text = line.text.partition(" = ")[2] if line.makes else line.text
        names = (name.replace("torch.nn.functional.", "F.") for name in _NAME.findall(text))
        found += [*names, *_SYMBOL.findall(text)] or [line.rule]
    return found


def _telling(operators: list[str]) -> list[str]:
    return [each for each in operators if each not in _PLUMBING] or operators


def _joined(names: Iterable[str]) -> str:
    return " ".join(sorted(set(names)))
