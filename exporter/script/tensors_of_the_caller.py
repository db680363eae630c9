"""Tensors of the program that calls a script, whose writes in place the model may lose.

A tensor that a script is given and one that it returns may be the same for some values of the inputs. In the model they
are two. So a write to one of them is refused where the program reads the other one afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from onnx_parity.exporter.dispatch.functional import is_functional, unwrapped
from onnx_parity.exporter.recording.leaves import share_memory
from onnx_parity.exporter.recording.lost_writes import MayBeOne, TensorThen
from onnx_parity.exporter.recording.recorder import Recorder
from onnx_parity.exporter.script.alias_uses import Aliases
from onnx_parity.exporter.torch_inside.pytree import tree_leaves

__all__ = ["watch", "watch_replaced"]


def watch(recorder: Recorder, aliases: Aliases, chosen: Sequence[Any], known: Iterable[tuple[Any, Any]]) -> None:
    """Watch the arguments and results of a script, given with their values in its graph.

    `chosen` are the values that a branch or a loop returns, which are new tensors in the model.
    """
    held = [
        (aliases.of(value), TensorThen.of(leaf, recorder.value_of(unwrapped(leaf))))
        for each, had in known
        for value, part in _parts(each, had)
        for leaf in tree_leaves(part)
        if is_functional(leaf)
    ]
    for value in {each.unique(): each for each in chosen}.values():
        sources = aliases.of(value)
        for (of_one, one), (of_other, other) in itertools.combinations(held, 2):
            if sources & of_one & of_other and not share_memory(one.tensor, other.tensor):
                recorder.may_be_one.append(MayBeOne((one, other), recorder.origins.find()))


def watch_replaced(recorder: Recorder, tensor: Any) -> None:
    """Watch a tensor that a script has given other memory: the program that calls the script may not read it."""
    if isinstance(tensor, torch.Tensor) and is_functional(tensor):
        held = TensorThen.of(tensor, recorder.value_of(unwrapped(tensor)))
        recorder.may_be_one.append(MayBeOne((held.written(recorder.last), held), recorder.origins.find()))


def _parts(value: Any, had: Any) -> Iterator[tuple[Any, Any]]:
    """The values of a tuple, if the script makes it, with what they are here."""
    if isinstance(had, tuple) and value.node().kind() == "prim::TupleConstruct":
        for inner, part in zip(value.node().inputs(), had, strict=True):
            yield from _parts(inner, part)
    else:
        yield value, had
