"""Users' lowerings, a check that each of this package's is used, and errors of operators without one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.registry import lowerings as registry
from onnx_parity.exporter.registry.rules import Aspect, all_rules, names_in_index, rules_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, has_kernel_at, schema_of
from onnx_parity.harness.results.content import room_folder
from tests.exporter.subjects import assert_agrees
from tests.fresh import run_after_torch

X = torch.linspace(-2, 2, 6).reshape(2, 3)
pytestmark = pytest.mark.usefixtures("registry_as_it_was")


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    with torch.library._scoped_library("parity_tests", "DEF") as library:
        for name in ("cube", "other"):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x**3, "CompositeExplicitAutograd")
            torch.library.register_fake(f"parity_tests::{name}", torch.empty_like, lib=library)
        yield


def cube(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.ops.parity_tests.cube(x)
    return result


def test_lowering_of_a_custom_operator() -> None:
    @onnx_parity.lowering("parity_tests::cube")
    def lower_cube(g: Any, x: Any) -> Any:
        return g.op("Mul", x, g.op("Mul", x, x))

    program = onnx_parity.export(cube, (X,))
    assert [node.op_type for node in program.model.graph] == ["Mul", "Mul"]
    assert_agrees(program, cube, X)


def test_override_from_an_opset_on() -> None:
    @onnx_parity.lowering("aten::relu", since=13)
    def lower_relu(g: Any, self: Any) -> Any:
        return g.op("Max", self, g.const(torch.tensor(0.0)))

    capture = onnx_parity.capture_program(torch.relu, (X,))
    names = {opset: [node.op_type for node in capture.lower(opset).model.graph] for opset in (12, 13, 20)}
    assert names[12] == ["Relu"]
    assert names[13][-1] == names[20][-1] == "Max"


class Unknown(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cube(x) + 1


def test_all_operators_without_lowering_are_listed_at_once() -> None:
    model = nn.Sequential(Unknown(), nn.ReLU(), nn.Sequential(Unknown()))

    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.parity_tests.other(model(x))
        return result

    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(model, (X,), opset_version=13)
    line = inspect.getsourcelines(cube)[1] + 1
    assert str(caught.value) == (
        "2 operators cannot be exported to opset 13:\n"
        "  - parity_tests::cube: there is no lowering for it\n"
        f"      at {__file__}:{line} in 0\n"
        "  - parity_tests::cube: there is no lowering for it\n"
        f"      at {__file__}:{line} in 2.0\n"
        "Register a lowering with @onnx_parity.lowering('namespace::name'), or rewrite those lines."
    )
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(program, (X,))
    assert [refusal.operator for refusal in caught.value.refusals] == [
        "parity_tests::cube",
        "parity_tests::cube",
        "parity_tests::other",
    ]


def places(x: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(x)


def test_operator_that_came_later_names_the_first_opset() -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(places, (X,), opset_version=8)
    assert str(caught.value) == (
        "1 operator cannot be exported to opset 8:\n"
        "  - aten::nonzero: ONNX has NonZero only from opset 9 (possible from opset 9)\n"
        f"      at {__file__}:{inspect.getsourcelines(places)[1] + 1}\n"
        "Export with opset_version=9 or later."
    )
    assert_agrees(onnx_parity.export(places, (X,), opset_version=9), places, X)


def wrong_dtype(g: Any, x: Any) -> Any:
    return g.op("Equal", x, x)


def too_many(g: Any, x: Any) -> Any:
    return x, x


def wrong_rank(g: Any, x: Any) -> Any:
    return g.op("Reshape", x, g.op("Constant", value_t=torch.tensor([-1, 1, 1])))


def wrong_size(g: Any, x: Any) -> Any:
    return g.op("Concat", x, x, axis_i=1)


def broken(g: Any, x: Any) -> Any:
    return dict[str, Any]()["missing"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            wrong_dtype,
            "the lowering of parity_tests.cube.default returned torch.bool, but torch returns torch.float32: "
            "cast the result, g.cast(y, torch.float32)\n"
            "      at {where}",
        ),
        (
            wrong_rank,
            "the lowering of parity_tests.cube.default returned a tensor of 3 axes, but torch returns one of 2: "
            "return one of that rank\n"
            "      at {where}",
        ),
        (
            wrong_size,
            f"the lowering of parity_tests.cube.default returned a tensor whose axis 1 has the size {2 * X.shape[1]}, "
            f"but torch returns one of the size {X.shape[1]}: look at the attributes of its nodes\n      at {{where}}",
        ),
        (
            too_many,
            "the lowering of parity_tests.cube.default returned 2 values, but the operator has 1 outputs: return one "
            "value for each\n      at {where}",
        ),
        (
            broken,
            "the lowering of parity_tests.cube.default (tests.exporter.registry.test_registry.broken at {own}) failed "
            "with KeyError: 'missing'\n      at {where}",
        ),
    ],
)
def test_faulty_lowerings(function: Callable[..., Any], message: str) -> None:
    registry.register("parity_tests::cube", function)
    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(cube, (X,))
    where = f"{__file__}:{inspect.getsourcelines(cube)[1] + 1}"
    own = f"{__file__}:{inspect.getsourcelines(function)[1] + 1}"
    assert str(caught.value) == message.format(where=where, own=own)


#: Operators with a lowering that are not recorded where a program calls them, and why they have one nevertheless.
_REACHED_OTHERWISE = {
    "aten::copy_": "it is recorded for a buffer or an input that the program writes to",
    "aten::rrelu_with_noise": "it writes to its noise: functionalization makes rrelu_with_noise_functional of it",
}


def is_recorded(op: OpOverload) -> bool:
    """Whether a recording sees the operator itself: functionalization replaces writes, torch decomposes composites."""
    if op.name() in names_in_index(Aspect.WHOLE):
        return True
    is_composite = has_kernel_at(op.name(), "CompositeImplicitAutograd")
    return not is_composite and not schema_of(op).is_mutable


def never_recorded(names: Iterable[str]) -> set[str]:
    """Those of the ATen operators of which a recording sees no overload."""
    of_aten = [name for name in names if name.startswith("aten::")]
    return {name for name in of_aten if not any(map(is_recorded, registry.operators_named(name)))}


def test_every_lowering_of_this_package_is_reached() -> None:
    names = set(registry.lowered_operators()) - registry._from_users
    assert never_recorded(names) == _REACHED_OTHERWISE.keys(), (
        "torch has no such operators, or decomposes them before they are recorded, so that their lowerings are never "
        "called: correct their names, or call keep_whole in the recorded.py of their family"
    )


def test_lowerings_of_operators_that_torch_decomposes_are_found() -> None:
    assert never_recorded(["aten::elu", "aten::linear", "aten::tensordot", "aten::relu_", "aten::no_such"]) == {
        "aten::tensordot",
        "aten::relu_",
        "aten::no_such",
    }


def test_rules_for_scripts_and_symbolic_numbers_are_for_operators_that_torch_has() -> None:
    aspects = (Aspect.SCRIPT, Aspect.NUMBERS)
    names = {rule.name for rule in all_rules() if rule.aspect in aspects and rule.name.startswith("aten::")}
    assert {"aten::narrow", "aten::addmm_", "aten::append"} <= names
    assert [name for name in names if not hasattr(torch.ops.aten, name.removeprefix("aten::"))] == []


def test_names_that_are_none() -> None:
    with pytest.raises(ValueError, match="'relu' is not the name of an operator: write it as 'namespace::name'"):
        onnx_parity.lowering("relu")(wrong_dtype)
    with pytest.raises(ValueError, match="since is '9': give an int, the first opset that the lowering is for"):
        onnx_parity.lowering("aten::relu", since="9")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 is not a lowering: give a function whose first parameter is g, "):
        onnx_parity.lowering("aten::relu")(3)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="3 is not the name of a function: write 'domain::Name'"):
        onnx_parity.local_function(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="symbolic_name is 3: write it as 'namespace::name'"):
        onnx_parity.unregister_custom_op_symbolic(3, 9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no lowering of 'parity_tests::cube' for opset 3 to remove"):
        registry.unregister("parity_tests::cube", since=3)


@pytest.mark.parametrize(
    ("name", "aspect", "declared"),
    [
        ("aten::silu", Aspect.LOWERING, '@lowering("aten::silu")'),
        ("aten::cosh", Aspect.COMPLEX, '@complex_of("aten::cosh")'),
        ("aten::flip", Aspect.COMPLEX, "by_parts("),
        ("quantized::add", Aspect.QUANTIZED, 'computes_floats("add")'),
        ("torch.Tensor.prod", Aspect.NESTED, 'Jagged.rule("prod")'),
    ],
)
def test_a_rule_has_the_place_that_declares_it(name: str, aspect: Aspect, declared: str) -> None:
    # The functions of the last three are made by others, or torch's, or there is none.
    [rule] = [rule for rule in rules_of(name) if rule.aspect is aspect]
    file, _, line = rule.place.partition(":")
    assert declared in (room_folder("exporter") / file).read_text().splitlines()[int(line) - 1]


@pytest.mark.slow
def test_a_lowering_of_a_user_replaces_one_that_is_imported_late() -> None:
    code = inspect.cleandoc(
        """
        import onnx_parity, torch
        from onnx_parity.exporter.registry import lowerings as registry
        onnx_parity.lowering("aten::special_zeta")(lambda g, self, other: g.op("Add", self, other))
        registry.lowered_operators()
        print(*(node.op_type for node in onnx_parity.export(torch.special.zeta, (torch.ones(2),) * 2).model.graph))
        """
    )
    printed = run_after_torch(code).stdout
    assert printed == "Add\n"


@pytest.mark.slow
def test_a_lowering_that_is_imported_late_can_be_removed() -> None:
    code = inspect.cleandoc(
        """
        import onnx_parity, torch
        onnx_parity.unregister_custom_op_symbolic("aten::special_zeta", 1)
        try:
            onnx_parity.export(torch.special.zeta, (torch.ones(2),) * 2)
        except onnx_parity.ExportError as error:
            print(str(error).splitlines()[1])
        """
    )
    printed = run_after_torch(code).stdout
    assert printed == "  - aten::special_zeta: there is no lowering for it\n"
