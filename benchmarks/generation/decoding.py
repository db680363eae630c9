"""Greedy decoding with exported models, driven by `generate` of transformers, which calls them in place of the model.

A model is exported with what `generate` calls it with. Which axes are dynamic, and how their sizes depend on each
other, is read from two such calls with other numbers of samples and of tokens.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

import onnx_parity
from onnx_parity.exporter.containers import leaves_of, opened

__all__ = ["Subject", "equal_tokens", "exported"]

Arguments = dict[str, Any]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Subject:
    """A model of transformers, what makes a prompt of so many samples and tokens, and the cache that it is given."""

    module: Any
    prompt: Callable[[int, int], Arguments]
    #: None if `generate` makes the cache.
    make_cache: Callable[[int], Any] | None = None
    #: The length of a sliding window; 0 without one.
    window: int = 0

    def generate(self, given: Arguments, count: int, cache: Any = None) -> Any:
        if cache is None and self.make_cache is not None:
            cache = self.make_cache(len(next(iter(given.values()))))
        caches = {} if cache is None else {self.cache_name: cache}
        with torch.no_grad():
            return self.module.generate(
                **given, **caches, max_new_tokens=count, min_new_tokens=count, do_sample=False,
                return_dict_in_generate=True,
            )  # fmt: skip

    @property
    def cache_name(self) -> str:
        """`cache` since transformers 5.24, `past_key_values` before."""
        return "cache" if "cache" in inspect.signature(self.module.forward).parameters else "past_key_values"

    @property
    def has_encoder(self) -> bool:
        return bool(self.module.config.is_encoder_decoder)


@dataclass(frozen=True)
class _Numbers:
    """What differs between calls: the samples, the tokens of the prompt, and those that are in the cache."""

    batch: int
    length: int
    past: int


#: No two numbers are alike. The past is longer than a window of eight tokens, and shorter.
_EXAMPLE, _OTHER = _Numbers(3, 18, 11), _Numbers(5, 10, 4)


class _SeenError(Exception):
    """Ends a decoding of which the call that was wanted has been seen."""


def equal_tokens(subject: Subject, models: Sequence[Call], batch: int, count: int) -> tuple[int, int]:
    """How many tokens are those of eager, up to the first other one of each sample; and how many there are."""
    given = subject.prompt(batch, 7)
    wanted = subject.generate(given, count).sequences[:, -count:]
    calls = itertools.chain(models[:-1], itertools.repeat(models[-1]))

    def call(**given: Any) -> Any:
        return next(calls)(**given)

    with _calling(subject, call):
        got = subject.generate(given, count).sequences[:, -count:]
    return int((got == wanted).long().cumprod(-1).sum()), wanted.numel()


def exported(subject: Subject, merged: bool, opset: int, target: str | None = None) -> Sequence[Call]:
    """The exported model, or one for the prompt and one for each further token, to be called as the program is."""
    if merged:
        return [_program(subject, _continued, ("sequence", "all", "all - sequence"), opset, target)]
    first = _program(subject, _first, ("sequence", "sequence", ""), opset, target)
    return [first, _program(subject, _step, ("", "all", "all - 1"), opset, target)]


def _program(
    subject: Subject,
    observe: Callable[[Subject, _Numbers], Arguments],
    words: tuple[str, str, str],
    opset: int,
    target: str | None,
) -> Call:
    """The exported model of a call. `words` name the new tokens, all tokens, and those in the cache."""
    example = observe(subject, _EXAMPLE)
    named = [_names(subject, numbers, words) for numbers in (_EXAMPLE, _OTHER)]
    axes = _axes(example, observe(subject, _OTHER), {name: (named[0][name], named[1][name]) for name in named[0]})
    program = onnx_parity.export(
        subject.module, kwargs=example, dynamic_shapes=axes, opset_version=opset, target=target
    )

    def call(**given: Any) -> Any:
        return program(**{name: given[name] for name in example})

    return call


def _names(subject: Subject, numbers: _Numbers, words: tuple[str, str, str]) -> dict[str, int]:
    """The sizes that an axis may have, by their names."""
    if subject.has_encoder:
        return {"batch": numbers.batch, "encoded": numbers.length, "past": numbers.past}
    new, everything, past = words
    if not past:
        return {"batch": numbers.batch, new: numbers.length}
    count = numbers.length - numbers.past if new else 1
    sizes = {"batch": numbers.batch, new: count, everything: numbers.past + count, past: numbers.past}
    if subject.window:
        sizes[f"min({past}, {subject.window - 1})"] = min(numbers.past, subject.window - 1)
    return sizes


def _axes(one: Arguments, other: Arguments, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The dynamic axes of each argument: a dict for a tensor, and a list of them for an object that has tensors."""

    named = {pair: name for name, pair in sizes.items()}

    def axes_of(first: Any, second: Any) -> Any:
        if isinstance(first, torch.Tensor):
            pairs = enumerate(zip(first.shape, second.shape, strict=True))
            return {axis: named[pair] for axis, pair in pairs if pair[0] != pair[1]}
        if type(first) is dict:
            return {key: axes_of(value, second[key]) for key, value in first.items()}
        leaves = zip(leaves_of(opened(first)), leaves_of(opened(second)), strict=True)
        return [axes_of(*each) for each in leaves if isinstance(each[0], torch.Tensor)] or None

    return {name: axes_of(value, other[name]) for name, value in one.items()}


def _first(subject: Subject, numbers: _Numbers) -> Arguments:
    """The call with a prompt and an empty cache."""
    return _seen(subject, subject.prompt(numbers.batch, numbers.length), 0)


def _step(subject: Subject, numbers: _Numbers) -> Arguments:
    """The call with one token, and a cache."""
    if subject.has_encoder:
        return _seen(subject, subject.prompt(numbers.batch, numbers.length), numbers.past)
    return _seen(subject, subject.prompt(numbers.batch, numbers.past), 1)


def _continued(subject: Subject, numbers: _Numbers) -> Arguments:
    """The call with several tokens, and a cache."""
    before = subject.generate(subject.prompt(numbers.batch, numbers.past), 1)
    cache = getattr(before, subject.cache_name)
    return _seen(subject, subject.prompt(numbers.batch, numbers.length), 0, cache)


def _seen(subject: Subject, given: Arguments, number: int, cache: Any = None) -> Arguments:
    """The arguments of the call with this number, as they are before it."""
    forward, count = subject.module.forward, 0

    def call(**given: Any) -> Any:
        nonlocal count
        if count == number:
            raise _SeenError(copy.deepcopy(given))
        count += 1
        return forward(**given)

    try:
        with _calling(subject, call):
            subject.generate(given, number + 1, cache)
    except _SeenError as seen:
        arguments: Arguments = seen.args[0]
        return arguments
    raise AssertionError(f"generate does not call the model {number + 1} times")


def _calling(subject: Subject, call: Call) -> Any:
    """Let `generate` call this in place of the model, with the parameters of the model."""
    forward = subject.module.forward

    @functools.wraps(forward)
    def replaced(**given: Any) -> Any:
        return call(**given)

    return patch.object(subject.module, "forward", replaced)
