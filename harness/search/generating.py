"""Drawing a program: rules and calls of the catalogue, one after the other, and inputs whose results mean something."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from onnx_parity.harness.cases.program import run_uncompiled
from onnx_parity.harness.search.catalogue import Hand, add_to
from onnx_parity.harness.search.draft import Draft, FixedSizeError, NoOperandError, RefusedError
from onnx_parity.harness.search.generated import GeneratedProgram
from onnx_parity.harness.search.rules.every import RULES

#: The most operators of a program.
MOST = 30
#: The hand of a program that only rules draw.
NOTHING = Hand()
#: How many rules are drawn at most for each operator, since some find no operand.
ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Drawn:
    """A program, or the line that torch refused, and whether every value of it is finite."""

    program: GeneratedProgram
    refused: str
    finite: bool
    lines: int


def draw(seed: int, hand: Hand = NOTHING) -> Drawn:
    """The program of a seed, with lines of cards of the catalogue as far as they fit into its length."""
    draft = Draft(seed, constants=not hand.side_by_side)
    finite, refused, left = True, "", list(hand.cards)
    wanted = 0 if hand.side_by_side else min(MOST, 1 + int(draft.random.expovariate(1 / 7)))
    rules, weights = list(RULES), list(RULES.values())
    with quietly():
        for _ in range(len(left) if hand.side_by_side else ATTEMPTS * wanted):
            before = len(draft.lines)
            if refused or (before >= wanted and not hand.side_by_side):
                break
            try:
                if left and (hand.side_by_side or draft.chance(len(left) / (wanted - before))):
                    add_to(draft, left.pop())
                else:
                    rule = draft.random.choices(rules, weights)[0]
                    draft.rule = rule.__name__
                    rule(draft)
            except (FixedSizeError, NoOperandError):
                continue
            except RefusedError as error:
                refused = f"{draft.rule}: {error}"
            finite = finite and _finite(draft, before)
    return Drawn(draft.finished(side_by_side=hand.side_by_side), refused, finite, len(draft.lines))


def _finite(draft: Draft, before: int) -> bool:
    """Whether the values are finite that the lines from this one on have computed or written to."""
    lines = draft.lines[before:]
    names = {name for line in lines for name in (line.makes or line.reads[:1])}
    tensors = (
        tensor
        for name in names
        if name in draft.values
        for tensor in (draft.values[name].tensor, draft.values[name].other)
    )
    return all(
        bool(torch.isfinite(tensor).all()) for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()
    )


@contextmanager
def quietly() -> Iterator[None]:
    """A context in which programs run without warnings, gradients, or the compilation of control flow."""

    with run_uncompiled(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def redrawn(program: GeneratedProgram, turn: int) -> GeneratedProgram:
    """The program with other values of its inputs."""
    return replace(program, draw=program.draw + turn)
