"""Times prompts through linear attention that is a loop over tokens: `python -m benchmarks.latency.prefill`.

Each program is exported twice: as it is, and with its loop kept as a loop of the model. onnxruntime runs both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
import typer
from torch import Tensor

import onnx_parity
from onnx_parity.exporter.graph.graph import Node

#: How many times as fast as the loop a prompt of 1,024 tokens has to be.
TARGET = 10.0
#: The seconds after which a model is not run again.
_LONG_ENOUGH = 3.0


def linear(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    results = torch.zeros_like(value)
    for token in range(query.shape[2]):
        state = state + key[:, :, token, :, None] * value[:, :, token, None, :]
        results[:, :, token] = (state * query[:, :, token, :, None]).sum(-2)
    return results, state


def gated(query: Tensor, key: Tensor, value: Tensor, state: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    results = torch.zeros_like(value)
    for token in range(query.shape[2]):
        state = state * decay[:, :, token, None, None].exp() + key[:, :, token, :, None] * value[:, :, token, None, :]
        results[:, :, token] = (state * query[:, :, token, :, None]).sum(-2)
    return results, state


def gated_delta(
    query: Tensor, key: Tensor, value: Tensor, state: Tensor, decay: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor]:
    results = torch.zeros_like(value)
    for token in range(query.shape[2]):
        k = key[:, :, token, :, None]
        state = state * decay[:, :, token, ..., None].exp().reshape(*state.shape[:2], -1, 1)
        row = (value[:, :, token] - (state * k).sum(-2)) * beta[:, :, token, None]
        state = state + k * row[..., None, :]
        results[:, :, token] = (state * query[:, :, token, :, None]).sum(-2)
    return results, state


class _Program(NamedTuple):
    name: str
    function: Callable[..., tuple[Tensor, Tensor]]
    #: Whether it has a decay for each head, or one for each element of a key, and whether it has a rate.
    decay: str = ""
    has_rate: bool = False


_PROGRAMS = (
    _Program("linear attention", linear),
    _Program("gated linear attention", gated, "head"),
    _Program("gated delta rule", gated_delta, "head", True),
    _Program("gated delta rule, decay of each element", gated_delta, "element", True),
)


def main(
    tokens: Annotated[int, typer.Option(help="The length of the prompt.")] = 1024,
    heads: Annotated[int, typer.Option(help="The number of heads.")] = 8,
    size: Annotated[int, typer.Option(help="The size of a head.")] = 64,
    opset: Annotated[int, typer.Option(help="The opset of the models.")] = 18,
) -> None:
    """Time each program both ways. Exits with 1 if a prompt is not ten times as fast as in the loop."""
    print(f"{'':<42}{'loop':>10}{'this':>10}{'ratio':>8}   one token: loop, this")
    ratios = []
    for program in _PROGRAMS:
        example = _inputs(program, 3, heads, size)
        axes = tuple({} if number == 3 else {2: "tokens"} for number in range(len(example)))
        models = []
        for keeps_loop in (True, False):
            models.append(_session(program.function, example, axes, opset, keeps_loop))
        long, short = (_times(models, _inputs(program, length, heads, size)) for length in (tokens, 1))
        ratios.append(long[0] / long[1])
        figures = "".join(f"{1000 * seconds:>7.1f} ms" for seconds in long)
        print(f"{program.name:<42}{figures}{ratios[-1]:>8.1f}   {1000 * short[0]:.2f} ms, {1000 * short[1]:.2f} ms")
    if min(ratios) < TARGET:
        raise typer.Exit(1)


def _inputs(program: _Program, tokens: int, heads: int, size: int) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    shape = (1, heads, tokens)
    key = torch.nn.functional.normalize(torch.randn(*shape, size), dim=-1)
    inputs = [torch.randn(*shape, size), key, torch.randn(*shape, size), torch.randn(1, heads, size, size)]
    if program.decay:
        inputs.append(-torch.rand(*shape, *([size] if program.decay == "element" else [])))
    if program.has_rate:
        inputs.append(torch.rand(shape))
    return tuple(inputs)


def _session(
    function: Callable[..., object],
    example: tuple[Tensor, ...],
    axes: Sequence[dict[int, str]],
    opset: int,
    keeps_loop: bool,
) -> onnxruntime.InferenceSession:
    def as_it_is(nodes: Sequence[Node], sources: object) -> Sequence[Node]:
        return nodes

    where = "onnx_parity.exporter.tracing.attempt.with_all_tokens"
    with patch(where, as_it_is) if keeps_loop else patch.dict({}):
        program = onnx_parity.export(function, example, dynamic_shapes=axes, opset_version=opset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)


def _times(models: Sequence[onnxruntime.InferenceSession], inputs: Sequence[Tensor]) -> list[float]:
    """The medians of the seconds of several runs. All have to have equal results."""
    times, results = [], []
    for model in models:
        feeds = {each.name: x.numpy() for each, x in zip(model.get_inputs(), inputs, strict=True)}
        results.append(model.run(None, feeds))
        seconds: list[float] = []
        while len(seconds) < 5 and sum(seconds) < _LONG_ENOUGH:
            start = time.perf_counter()
            model.run(None, feeds)
            seconds.append(time.perf_counter() - start)
        times.append(statistics.median(seconds))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    return times


if __name__ == "__main__":
    typer.run(main)
