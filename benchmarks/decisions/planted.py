"""Puts mistakes about sizes and layouts back that were mended, and counts the programs that it takes to find each.

    python -m benchmarks.decisions.planted --programs 2000

A mistake is a function of the exporter that is replaced. Each is looked for in a copy of this process, by the search of
`parity search --any-size`, from the first program on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from benchmarks.options import search
from onnx_parity.exporter.lowering import builder
from onnx_parity.exporter.lowering.opsets import reshaping
from onnx_parity.exporter.operators.indexing import results as slices
from onnx_parity.exporter.operators.resize import resize_axes
from onnx_parity.exporter.recording import lost_writes
from onnx_parity.exporter.script import interpreter, steps
from onnx_parity.exporter.sizes import copies, symbolic_numbers, symbols
from onnx_parity.exporter.torch_inside import bytecode
from onnx_parity.exporter.tracing import branches_on_sizes
from onnx_parity.harness.any_size.in_copies import run_in_copies
from onnx_parity.harness.any_size.programs import look_at

_REPLACED = list[tuple[Any, str, Any]]


def _answered_without_a_word(self: symbols.Symbols, question: Any) -> bool:
    return bool(self.holds_in_example(question))


def _hidden_by_torch(self: symbols.Symbols, question: Any) -> bool:
    known = self.answers.get(question)
    return bool(known.answer) if known is not None and not known.by_user else _decided(self, question)


_decided = symbols.Symbols.decided
_rules = symbolic_numbers._rules

#: By what is wrong: what is put in the place of which attribute.
MISTAKES: dict[str, Callable[[], _REPLACED]] = {
    "copies that are none are not noted": lambda: [(symbols.Symbols, "lost_copy", lambda *_: None)],
    "copies of scripts are not noted": lambda: [(interpreter, "MAY_COPY", frozenset())],
    "a copy that is surely none is a copy": lambda: [(copies, "copy_or_view", _only_a_copy)],
    "is_contiguous is frozen": lambda: [_without_rule("torch.Tensor.is_contiguous")],
    "is_same_size is frozen": lambda: [_without_rule("torch.Tensor.is_same_size")],
    "reshape, flatten and ravel are not followed": lambda: [(lost_writes.LayoutsAsked, "made", _as_torch_made_it)],
    "is_contiguous of scripts is the example's": lambda: [(steps, "step_function", _no_step_of_layouts)],
    "questions that decide a result are not written down": lambda: [
        (symbols.Symbols, "decided", _answered_without_a_word)
    ],
    "a question that torch has asked hides the program's": lambda: [(symbols.Symbols, "decided", _hidden_by_torch)],
    "`is True` is no question": lambda: [(bytecode._Asked, "__contains__", _is_itself)],
    "branches make no difference": lambda: [(branches_on_sizes, "branches_that_matter", lambda recorded, again: [])],
    "an axis never keeps its size": lambda: [(resize_axes.Axis, "may_have", lambda self, ratio: False)],
    "an axis is never empty in a shape": lambda: [(reshaping, "may_be_empty", lambda size: False)],
    "slices have no more than their bounds": lambda: [(slices, "_larger", lambda one, other: one)],
    "halves are added up in halves": lambda: [(builder.Graph, "accumulating", lambda self, x: x)],
}


def _only_a_copy(given: Any, result: Any, *_: Any) -> Any:
    return result, None


def _as_torch_made_it(self: Any, given: Any, result: Any, *_: Any, **__: Any) -> Any:
    return result


def _is_itself(self: Any, asked: Any) -> bool:
    return type(asked) is tuple and asked[0] is asked[1]


def _without_rule(name: str) -> tuple[Any, str, Any]:
    symbolic_numbers.operator_with_symbolic_numbers(name)
    assert name in _rules, f"{name} has no rule: nothing would be planted"
    return _rules, name, lambda torchs, *args, **options: torchs(*args, **options)


_step_function = steps.step_function


def _no_step_of_layouts(kind: str) -> Any:
    return None if kind == "aten::is_contiguous" else _step_function(kind)


def _plant(replaced: _REPLACED) -> None:
    for owner, name, value in replaced:
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)
            # Files that import a function by its name have it too.
            for module in list(sys.modules.values()):
                if module is not owner and getattr(module, "__name__", "").startswith("onnx_parity."):
                    before = _BEFORE.get((id(owner), name))
                    if before is not None and module.__dict__.get(name) is before:
                        setattr(module, name, value)


_BEFORE = {
    (id(owner), name): getattr(owner, name)
    for make in MISTAKES.values()
    for owner, name, _ in make()
    if not isinstance(owner, dict)
}


def found_after(mistake: str, programs: int) -> list[str]:
    """The first program that shows a mistake, and how; nothing if none does."""
    _plant(MISTAKES[mistake]())
    for seed in range(programs):
        _, *difference = look_at(seed)
        if difference:
            return [str(seed), *difference]
    return []


def main(
    programs: Annotated[int, typer.Option(help="How many programs are drawn for each mistake at most.")] = 2000,
    only: Annotated[str, typer.Option(help="A regular expression for the descriptions of the mistakes.")] = "",
) -> None:
    """Plant each mistake, and end with 1 if one is not found."""
    chosen = search("--only", only, MISTAKES)
    print(f"{'none planted':55s}", "found nothing" if not run_one("", 30) else "FOUND", flush=True)
    missed = 0
    for mistake in chosen:
        found = run_one(mistake, programs)
        is_found = bool(found) and found[0] != "ended"  # A process that ends shows no wrong model.
        missed += not is_found
        shown = f"program {found[0]}: {found[1][:120]}" if is_found else found[1] if found else "not found"
        print(f"{mistake:55s}", shown, flush=True)
    raise typer.Exit(bool(missed))


def run_one(mistake: str, programs: int) -> list[str]:
    """What a copy of this process finds."""
    MISTAKES.setdefault("", list)
    ((_, found),) = run_in_copies([mistake], lambda each: found_after(each, programs))
    return found


if __name__ == "__main__":
    typer.run(main)
