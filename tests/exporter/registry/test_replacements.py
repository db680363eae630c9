"""The registry of replacements for operators of torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # (Registers the operators of `quantized_decomposed`.)
from packaging.version import Version

import onnx_parity
from onnx_parity.exporter.dispatch import composites as dispatch
from onnx_parity.exporter.registry import recorded as registry
from onnx_parity.exporter.registry import results
from onnx_parity.exporter.registry.in_place import (
    DYNAMIC,
    DYNAMIC_HALVES,
    FLOATS,
    FLOATS_AND_DYNAMIC,
    Targets,
    copy_back,
)
from onnx_parity.exporter.registry.recorded import any_is_complex, instead_of, keep_whole
from onnx_parity.exporter.registry.results import result_of
from onnx_parity.exporter.registry.rules import Aspect, Rule, all_rules, rules_of
from onnx_parity.exporter.torch_inside.dispatcher import names_with_kernel_at, schema_by_name

#: The aspects whose rules name a reason, because torch's own implementation is replaced.
REPLACING = {
    Aspect.INSTEAD,
    Aspect.WHOLE,
    Aspect.DECOMPOSITION,
    Aspect.RESULT,
}


def replacements() -> list[Rule]:
    return [rule for rule in all_rules() if rule.aspect in REPLACING]


def test_every_replacement_has_a_reason_and_a_place() -> None:
    found = replacements()
    assert len(found) > 200
    assert Counter(each.aspect for each in found).keys() == REPLACING
    assert [str(each) for each in found if len(each.why.split()) < 4] == []
    assert [str(each) for each in found if (each.function is None) is not (each.aspect is Aspect.WHOLE)] == []
    tables: dict[Aspect, Iterable[str]] = {**registry._functions, Aspect.RESULT: results._rules}
    assert {(each.name, each.aspect) for each in found if each.function is not None} == {
        (name, aspect) for aspect, names in tables.items() for name in names
    }


def test_every_name_is_that_of_an_operator() -> None:
    assert [each.name for each in replacements() if registry.named(each.name).name() != each.name] == []


def test_composite_operators_without_a_kernel_are_views_and_those_without_tensors() -> None:
    names = names_with_kernel_at("CompositeImplicitAutograd")
    composites = {name.removeprefix("aten::") for name in names if name.startswith("aten::")}
    without = set()
    for name in composites:
        schema = schema_by_name(*f"aten::{name}".partition(".")[::2])
        of_tensors = [any("Tensor" in str(each.type) for each in schema.arguments)]
        of_tensors += ["Tensor" in str(each.type) for each in schema.returns] or [False]
        aliases = [each.alias_info for each in schema.arguments if each.alias_info is not None]
        is_view = bool(aliases) and not any(alias.is_write for alias in aliases)
        if (not all(of_tensors) and not name.endswith("_")) or is_view:
            without.add(name)
    listed = dispatch._VIEWS_AND_QUESTIONS & composites
    assert listed <= without
    # Earlier versions have more of them: those whose axes have names.
    assert listed == without or Version(torch.__version__) < Version("2.13")


def test_what_is_decomposed_by_a_function_is_not_called_instead() -> None:
    names = {aspect: {each.name for each in replacements() if each.aspect is aspect} for aspect in REPLACING}
    assert not names[Aspect.DECOMPOSITION] & names[Aspect.INSTEAD]


def test_they_are_listed_as_a_reader_wants_them() -> None:
    (one_hot,) = (each for each in replacements() if each.name == "aten::one_hot")
    assert str(one_hot) == (
        "aten::one_hot: replaced when the program calls it: torch's reads the greatest value as a plain int, and its "
        "checks end torch.vmap"
    )


def test_nothing_is_registered_twice_or_without_a_reason() -> None:
    assert rules_of("aten::linear")  # Their file has been imported.
    with pytest.raises(ValueError, match=r"^aten::linear is kept whole twice$"):
        keep_whole("aten::linear", why="again")
    with pytest.raises(ValueError, match=r"^aten::elu is replaced without a reason$"):
        instead_of(torch.ops.aten.elu.default, why="")(torch.ops.aten.elu.default)
    assert registry.function_for(Aspect.INSTEAD, "aten::elu") is None
    with pytest.raises(ValueError, match=r"^the result of aten::linear is described by two functions$"):
        result_of("aten::linear", why="again")(torch.ops.aten.linear.default)


@pytest.fixture
def no_rules(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Callable[..., Any]]:
    """The functions that are called instead of operators: none, until the test registers some."""
    functions: dict[str, Callable[..., Any]] = {}
    monkeypatch.setitem(registry._functions, Aspect.INSTEAD, functions)
    monkeypatch.setattr(registry, "add", lambda rule: None)
    return functions


def test_a_condition_is_asked_about_all_tensors_of_a_call(no_rules: Mapping[str, Callable[..., Any]]) -> None:
    instead_of("aten::cat", where=any_is_complex, why="for this test")(lambda *args, **kwargs: "ours")
    real, complex_ = torch.ones(2), torch.ones(2, dtype=torch.complex64)
    cat = no_rules["aten::cat"]
    assert cat([real, complex_], 0) == cat(complex_) == cat(dim=0, tensors=(complex_,)) == "ours"
    assert cat([real, real], 0) is cat(0) is NotImplemented


def test_a_function_of_several_operators_is_given_the_one_that_is_called(
    no_rules: Mapping[str, Callable[..., Any]],
) -> None:
    instead_of("aten::sin", "aten::max.dim", gives_operator=True, why="for this test")(lambda *args: args)
    assert no_rules["aten::sin"](1, 2) == (torch.ops.aten.sin.default, 1, 2)
    assert no_rules["aten::max.dim"](3) == (torch.ops.aten.max.dim, 3)


@pytest.mark.parametrize("to", [FLOATS, FLOATS_AND_DYNAMIC, DYNAMIC, DYNAMIC_HALVES])
def test_writes_to_some_targets_are_copies(no_rules: Mapping[str, Callable[..., Any]], to: Targets) -> None:
    copy_back("pow_", to=to)
    assert no_rules.keys() == {"aten::pow_.Scalar", "aten::pow_.Tensor"}
    target = torch.tensor([2.0, 3.0])
    written = no_rules["aten::pow_.Scalar"](target, 2)
    assert (written is target) is (to in (FLOATS, FLOATS_AND_DYNAMIC))
    assert target.tolist() == ([4, 9] if written is target else [2, 3])


def test_a_function_that_returns_not_implemented_leaves_torch_to_do_it() -> None:
    x = torch.tensor([[2, 0, 1]])
    capture = onnx_parity.capture_program(lambda x: torch.nn.functional.one_hot(x, 3), (x,))
    assert "aten::one_hot" not in capture.operators
    program = capture.lower(18)
    assert torch.equal(program(x), torch.nn.functional.one_hot(x, 3))
