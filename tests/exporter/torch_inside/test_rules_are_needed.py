"""Rules that blame a version of torch make a difference: without them, a program of the operator is not exported right.

The programs are made from the operators' schemas, for all rules of a reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import pytest
import torch

from onnx_parity.exporter.registry.recorded import named
from onnx_parity.exporter.registry.rules import Aspect, Rule, all_rules
from onnx_parity.exporter.torch_inside.code_objects import code_that_calls
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from tests.exporter.torch_inside.witness import Witness, check, exporting

#: Operators on integers, of which functionalization checks the shapes of two that differ.
IN_BITS = (
    "__ilshift_",
    "__irshift_",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
)
FUNCTIONALIZATION, OFFSETS = "functionalization", "reads storage offsets"
X = torch.arange(12.0).reshape(4, 3) / 14 + 0.1
#: Arguments of operators for which those that the schema suggests have no result.
ARGUMENTS: dict[str, Callable[[torch.Tensor], tuple[Any, ...]]] = {
    **{f"aten::{name}_.Tensor": lambda x: (torch.ones_like(x[0]),) for name in IN_BITS},
    "aten::_reshape_alias_copy": lambda x: ([x.shape[0], 3], [3, 1]),
    "aten::addbmm_": lambda x: (x.new_ones(2, x.shape[0], 2), x.new_ones(2, 2, 3)),
    "aten::addcdiv_": lambda x: (torch.ones_like(x[0]), torch.ones_like(x[0])),
    "aten::addcmul_": lambda x: (torch.ones_like(x[0]), torch.ones_like(x[0])),
    "aten::addmm_": lambda x: (x[:, :2], x.new_ones(2, 3)),
    "aten::addr_": lambda x: (x[:, 0], x.new_ones(3)),
    "aten::clamp_": lambda x: (0.2, 0.5),
    "aten::clamp_.Tensor": lambda x: (torch.full_like(x, 0.2), None),
    "aten::expand_copy": lambda x: ([x.shape[0], 3],),
    "aten::gcd_": lambda x: (torch.ones_like(x[0]),),
    "aten::index_fill_.int_Scalar": lambda x: (1, torch.tensor([1]), 0.5),
    "aten::index_fill_.int_Tensor": lambda x: (1, torch.tensor([1]), x.new_ones([])),
    "aten::lcm_": lambda x: (torch.full_like(x, 2),),
    "aten::lerp_.Scalar": lambda x: (torch.ones_like(x[0]), 0.5),
    "aten::lerp_.Tensor": lambda x: (torch.ones_like(x), torch.ones_like(x[0])),
    "aten::masked_fill_.Tensor": lambda x: (x > 0.5, x.new_ones([])),
    "aten::mvlgamma_": lambda x: (2,),
    "aten::nextafter_": lambda x: (torch.ones_like(x[0]),),
    "aten::permute_copy": lambda x: ([1, 0],),
    "aten::polygamma_": lambda x: (2,),
    "aten::select_copy.int": lambda x: (1, 0),
    "aten::split_copy.Tensor": lambda x: (2, 1),
    "aten::split_with_sizes_copy": lambda x: ([1, 2], 1),
    "aten::squeeze_copy.dims": lambda x: ([0],),
    "aten::transpose_copy.int": lambda x: (0, 1),
    "aten::unbind_copy.int": lambda x: (1,),
    "aten::unfold_copy": lambda x: (1, 2, 1),
    "aten::view_copy": lambda x: ([x.shape[0], 3],),
}
#: Operators whose results are drawn, of which there is only the shape to compare.
DRAWING = frozenset(
    f"aten::{name}_" for name in ("cauchy", "exponential", "geometric", "log_normal", "normal", "uniform")
)
#: Dtypes for operators that take no float16, or whose results in it differ between kernels.
DTYPES = {
    **{f"aten::{name}_.Tensor": torch.int64 for name in IN_BITS},
    "aten::acosh_": torch.bfloat16,
    "aten::gcd_": torch.int64,
    "aten::lcm_": torch.int64,
    "aten::logit_": torch.float32,
    "aten::mvlgamma_": torch.float32,
    "aten::nextafter_": torch.float32,
}
#: Rules that make no difference to such a program on torch 2.13. For other versions, or other sizes, they are kept.
WITHOUT_WITNESS = frozenset(
    {
        "aten::_reshape_alias_copy", "aten::alias_copy", "aten::diagonal_copy", "aten::div_.Scalar_mode",
        "aten::div_.Tensor_mode",
        "aten::expand_copy", "aten::normal_", "aten::split_with_sizes_copy", "aten::squeeze_copy",
        "aten::squeeze_copy.dim", "aten::squeeze_copy.dims", "aten::t_copy", "aten::transpose_copy.int",
        "aten::unfold_copy", "aten::unsqueeze_copy",
    }
)  # fmt: skip


def rules_blaming_torch() -> dict[str, Rule]:
    """The rules of these reasons, by operator."""
    aspects = (Aspect.INSTEAD, Aspect.DECOMPOSITION)
    return {
        rule.name: rule
        for rule in all_rules()
        if rule.aspect in aspects and (FUNCTIONALIZATION in rule.why or OFFSETS in rule.why)
    }


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """A context in which the function of a rule handles no call, as if it did not exist."""
    function = rule.function
    assert isinstance(function, FunctionType)
    own = function.__code__
    function.__code__ = code_that_calls(lambda *_, **__: NotImplemented, own.co_freevars)
    try:
        yield
    finally:
        function.__code__ = own


def arguments_of(op: OpOverload, x: torch.Tensor) -> Iterator[Any]:
    """Arguments after the first, one for each that has to be given: by its type."""
    for parameter in schema_of(op).arguments[1:]:
        kind = str(parameter.type)
        if parameter.kwarg_only or parameter.has_default_value():
            return
        yield torch.full_like(x, 1) / 2 if "Tensor" in kind else 0 if kind == "int" else 0.5


def program_of(op: OpOverload) -> Callable[[torch.Tensor], Any]:
    """Calls the operator with a tensor of its own, to which it may write."""
    given = ARGUMENTS.get(op.name(), functools.partial(arguments_of, op))
    shift, is_drawn = int(op.name() == "aten::acosh_"), op.name() in DRAWING

    def program(x: torch.Tensor) -> Any:
        result = op(x + shift, *given(x))
        return result * 0 if is_drawn else result

    return program


def _names() -> Iterator[Any]:
    """The operators of these rules. One in twelve is tried by default: a program that fails is looked into at length,
    and the others are of interest for other versions of torch, with which `tox -m versions` tries all."""
    for place, name in enumerate(name for name in rules_blaming_torch() if name not in WITHOUT_WITNESS):
        yield pytest.param(name, marks=() if place % 12 == 0 else pytest.mark.slow)


@pytest.mark.parametrize("name", [*_names()])
def test_a_rule_is_needed(name: str) -> None:
    rule, op = rules_blaming_torch()[name], named(name)
    x = X.to(DTYPES.get(name, torch.float16))
    outcome = exporting(program_of(op), x, input_names=["x"], dynamic_axes={"x": [0]})
    check(
        Witness(outcome, "failed while it was recorded|is fixed by the program|there is no lowering for it"),
        lambda: without(rule),
    )


def test_rules_without_a_witness_exist() -> None:
    assert rules_blaming_torch().keys() >= WITHOUT_WITNESS
