"""Users' lowerings are checked against ONNX's schemas at once, with the line of the lowering in the error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.operators.activation import lowering as activation
from onnx_parity.exporter.registry import lowerings as registry
from tests.exporter.subjects import assert_agrees

X = torch.tensor([[-1.0, 0.5, 2.0]])


def export(lowering: Callable[..., Any], opset: int = 18) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(torch.erf, (X,), opset_version=opset, custom_translation_table={"aten::erf": lowering})


@pytest.mark.parametrize(
    ("lowering", "message"),
    [
        (lambda g, x: g.op("Add", x), "Add takes 2 inputs at opset 18 (A, B), but got 1"),
        (lambda g, x: g.op("Add", x, None), "Add takes 2 inputs at opset 18 (A, B), but got 1"),
        (lambda g, x: g.op("Erf", x, x), "Erf takes 1 input at opset 18 (input), but got 2"),
        (lambda g, x: g.op("Max"), "Max takes 1 inputs or more at opset 18 (data_0), but got 0"),
        (
            lambda g, x: g.op("Clip", None, x),
            "Clip got None for its input input, which is required at opset 18: give a value",
        ),
        (lambda g, x: g.op("Erf", x, alpha_f=1.0), "Erf has no attribute 'alpha' at opset 18: it has none"),
        (
            lambda g, x: g.op("ReduceSum", x, axes_i=[0]),
            "ReduceSum has no attribute 'axes' at opset 18: it has keepdims, noop_with_empty_axes",
        ),
        (
            lambda g, x: g.op("Elu", x, alpha_i=1),
            "Elu takes FLOAT for its attribute 'alpha' at opset 18, but got INT: write alpha_f=..., with a list for "
            "several",
        ),
        (lambda g, x: g.op("Cast", x), "Cast requires its attribute 'to' at opset 18: give it as a keyword argument"),
        (lambda g, x: g.op("Erf", x, outputs=2)[0], "Erf has 1 output at opset 18, but 2 were requested"),
        (lambda g, x: g.op("Dropout", x, outputs=3)[0], "Dropout has 1 to 2 outputs at opset 18, but 3 were requested"),
        (
            lambda g, x: g.op("Add", x, "b"),
            "Add: input 1 is 'b': give a value of the graph, a number, a tensor, or None for an optional "
            "input that is left out",
        ),
        (lambda g, x: g.op(3, x), "g.op got 3 as the name of an operator: give a string, g.op('Relu', x)"),
        (
            lambda g, x: g.op("ai.onnx.ml::Scalar", x),
            "ONNX has no operator Scalar in version 1 of its domain ai.onnx.ml: check its name",
        ),
        (
            lambda g, x: g.op("Coss", x),
            "ONNX has no operator Coss: check its name; an operator of another domain is written 'my_domain::Coss'",
        ),
        (
            lambda g, x: g.op("Add", x, g.op("Cast", x, to_i=11)),
            "Add takes inputs of one dtype for T, but got torch.float32 and torch.float64: cast one of them",
        ),
        (
            lambda g, x: g.op("Add", 1, 2),
            "Add: input 0 is the number 1, whose dtype is not known because no other input is a tensor of that type: "
            "give g.const(number, dtype)",
        ),
        (
            lambda g, x: g.op("Reshape", x, g.op("Shape", x)).sizes,
            "the shape of Reshape is not known: use that of an argument or of g.out",
        ),
    ],
)
def test_calls_that_onnx_does_not_know(lowering: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.LoweringError) as caught:
        export(lowering)
    name = f"{__name__}.<lambda> at {__file__}:{lowering.__code__.co_firstlineno}"
    assert str(caught.value).startswith(f"the lowering of aten.erf.default ({name}) failed with TypeError: {message}\n")


def test_parameters_that_the_schema_does_not_have() -> None:
    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(
            lambda x: torch.nn.functional.elu(x, 0.5),
            (torch.ones(2),),
            custom_translation_table={
                torch.ops.aten.elu.default: lambda g, x, *, factor: g.op("Elu", x, alpha_f=factor)
            },
        )
    assert "\nIts parameters are named as in the schema of the operator: g, self, alpha\n" in str(caught.value)


@pytest.mark.parametrize(
    ("lowering", "message"),
    [
        (
            lambda g, x: g.op("Upsample", x),
            "aten::erf: ONNX removed Upsample in opset 10: use the operator that replaces it",
        ),
        (lambda g, x: g.op("Swish", x), "aten::erf: ONNX has Swish only from opset 24 (possible from opset 24)"),
    ],
)
def test_operators_that_the_opset_does_not_have(lowering: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        export(lowering)
    assert str(caught.value.refusals[0]).partition("\n")[0] == message


@pytest.mark.usefixtures("registry_as_it_was")
def test_a_misspelt_name_in_a_lowering_of_this_package() -> None:
    names: dict[str, Any] = {"__name__": activation.__name__}
    exec(compile("def erf(g, self):\n    return g.op('Coss', self)\n", str(activation.__file__), "exec"), names)
    registry.register("aten::erf", names["erf"])
    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(torch.erf, (X,))
    assert str(caught.value).startswith(
        f"the lowering of aten.erf.default ({activation.__name__}.erf at {activation.__file__}:2) failed with "
        "TypeError: ONNX has no operator Coss: check its name; an operator of another domain is written "
        "'my_domain::Coss'\n      at "
    )


def test_names_as_torch_onnx_spells_them() -> None:
    for name in ("Erf", "onnx::Erf", "ai.onnx::Erf"):
        program = export(lambda g, x, name=name: g.op(name, x))
        assert [(node.domain, node.op_type) for node in program.model.graph] == [("", "Erf")]
        assert_agrees(program, torch.erf, X)


def test_versions_of_other_domains_are_those_requested() -> None:
    def encoder(g: Any, x: Any) -> Any:
        return g.op(
            "ai.onnx.ml::LabelEncoder", x, keys_floats_f=[-1.0, 2.0], values_floats_f=[10.0, 20.0], default_float_f=0.5
        )

    with pytest.raises(
        onnx_parity.LoweringError, match="LabelEncoder has no attribute 'keys_floats' at opset 1: it has"
    ):
        export(encoder)
    program = onnx_parity.export(
        torch.erf, (X,), custom_translation_table={"aten::erf": encoder}, custom_opsets={"ai.onnx.ml": 2}
    )
    assert program(X).tolist() == [[10.0, 0.5, 20.0]]


def test_a_lowering_that_is_an_object_and_fails() -> None:
    class Lowering:
        def __call__(self, g: Any, x: Any) -> Any:
            return x

    onnx_parity.lowering("aten::erf", since=9)(Lowering())
    try:
        with pytest.raises(onnx_parity.LoweringError, match=r"<locals>\.Lowering\) failed with TypeError: "):
            onnx_parity.export(torch.erf, (X,))
    finally:
        onnx_parity.unregister_custom_op_symbolic("aten::erf", 9)


def test_symbolic_of_an_autograd_function() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("Mul", x)

    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(lambda x: Doubled.apply(x) + 1, (X,))  # type: ignore[no-untyped-call]
    line = inspect.getsourcelines(Doubled.symbolic)[1] + 2
    assert f"at {__file__}:{line}) failed with TypeError: Mul takes 2 inputs at opset 18 (A, B), but got 1" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: onnx_parity.ops.symbolic("Add", (x,), dtype=x.dtype, shape=x.shape),
            "onnx_parity::onnx_operator: Add takes 2 inputs at opset 18 (A, B), but got 1",
        ),
        (
            lambda x: onnx_parity.ops.symbolic("Erf", (x,), {"alpha": 1.0}, dtype=x.dtype, shape=x.shape),
            "onnx_parity::onnx_operator: Erf has no attribute 'alpha' at opset 18: it has none",
        ),
        (
            lambda x: onnx_parity.ops.symbolic("Foo", (x,), dtype=x.dtype, shape=x.shape),
            "onnx_parity::onnx_operator: ONNX has no operator Foo: check its name; an operator of another domain is "
            "written 'my_domain::Foo'",
        ),
        (
            lambda x: onnx_parity.ops.symbolic("Swish", (x,), dtype=x.dtype, shape=x.shape),
            "onnx_parity::onnx_operator: ONNX has Swish only from opset 24 (possible from opset 24)",
        ),
    ],
)
def test_operators_called_by_name(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(call, (X,))
    words, _, place = str(caught.value.refusals[0]).partition("\n      at ")
    assert words == message
    assert place == f"{__file__}:{call.__code__.co_firstlineno}"


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    @staticmethod
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        return g.op("MatMul", x, y)


@pytest.mark.parametrize("dynamic_axes", [None, {"x": {0: "n"}, "y": {0: "n"}}])
def test_a_symbolic_of_another_rank_than_forward(dynamic_axes: dict[str, dict[int, str]] | None) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Products.apply(x, y)  # type: ignore[no-untyped-call]
        return result

    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(program, (torch.ones(3), torch.ones(3)), input_names=["x", "y"], dynamic_axes=dynamic_axes)
    assert str(caught.value) == (
        "the lowering of onnx_parity.autograd_function.default returned a tensor of 0 axes, but torch returns one of "
        f"1: return one of that rank\n      at {__file__}:{program.__code__.co_firstlineno + 1}"
    )


def test_ranks_that_onnx_cannot_infer_are_not_checked() -> None:
    def by_cases(g: Any, x: Any) -> Any:
        return g.op("mine::Erf", g.op("Reshape", x, g.op("Shape", g.op("mine::Sizes", x))))

    program = export(by_cases)
    assert [node.op_type for node in program.model.graph] == ["Sizes", "Shape", "Reshape", "Erf"]
