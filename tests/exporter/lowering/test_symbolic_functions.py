"""Symbolic functions of `torch.onnx`: registered, in a table, of autograd functions, as functions of ONNX."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.symbolic_helper import _if_scalar_type_as, _scalar, parse_args
from tests.exporter.subjects import FooModel, assert_agrees

X = torch.linspace(-2, 2, 6).reshape(2, 3)
pytestmark = pytest.mark.usefixtures("registry_as_it_was", "custom_operator")


def test_adding_elu_as_the_documentation_does() -> None:
    def elu(g: Any, input: Any, alpha: Any, inplace: bool = False) -> Any:
        return g.op("Elu", input, alpha_f=_scalar(alpha))

    onnx_parity.register_custom_op_symbolic("::elu", elu, 9)
    program = onnx_parity.export(nn.ELU(0.5), X, opset_version=9)
    assert [node.op_type for node in program.model.graph] == ["Elu"]
    assert_agrees(program, nn.ELU(0.5), X)


def test_by_name_where_names_agree_and_by_position_where_not() -> None:
    def by_name(g: Any, self: Any, *, negative_slope: float = 0.01) -> Any:
        return g.op("LeakyRelu", self, alpha_f=negative_slope + 1)

    def by_position(g: Any, x: Any, slope: float) -> Any:
        return g.op("LeakyRelu", x, alpha_f=slope + 2)

    for function, added in ((by_name, 1.0), (by_position, 2.0)):
        onnx_parity.register_custom_op_symbolic("aten::leaky_relu", function, 9)
        node = onnx_parity.export(nn.LeakyReLU(0.25), X).model.graph[0]
        assert node.attributes["alpha"].as_float() == 0.25 + added


def test_the_newest_registration_not_above_the_opset_serves() -> None:
    for since, op in ((9, "Abs"), (13, "Neg")):
        onnx_parity.register_custom_op_symbolic("aten::relu", lambda g, x, op=op: g.op(op, x), since)
    capture = onnx_parity.capture_program(torch.relu, X)
    assert [capture.lower(opset).model.graph[0].op_type for opset in (8, 12, 13, 20)] == ["Relu", "Abs", "Neg", "Neg"]


def test_composites_that_a_user_lowers_are_kept_whole() -> None:
    onnx_parity.register_custom_op_symbolic("aten::hardsigmoid", lambda g, x: g.op("mine::HardSigmoid", x), 9)
    onnx_parity.register_custom_op_symbolic(
        "aten::cosine_similarity", lambda g, x, y, dim, eps: g.op("mine::Cos", x, y), 9
    )
    program = onnx_parity.export(lambda x: torch.cosine_similarity(x, x + 1).relu(), X)
    assert [node.op_type for node in program.model.graph] == ["Add", "Cos", "Relu"]
    onnx_parity.unregister_custom_op_symbolic("aten::cosine_similarity", 9)
    assert "Cos" not in {
        node.op_type for node in onnx_parity.export(lambda x: torch.cosine_similarity(x, x + 1), X).model.graph
    }


def test_users_come_before_what_this_exporter_does_instead() -> None:
    table = {"aten::one_hot": lambda g, x, num_classes: g.op("mine::OneHot", x, classes_i=num_classes)}
    program = onnx_parity.export(
        lambda x: nn.functional.one_hot(x, 5),
        torch.arange(3),
        custom_translation_table=table,
        custom_opsets={"mine": 1},
    )
    assert [node.op_type for node in program.model.graph] == ["OneHot"]


@pytest.mark.parametrize("name", ["aten::chunk", "aten::tensor_split"])
def test_a_lowering_of_a_view_that_is_written_out_is_refused(name: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError, match=f"a lowering of {name} would never be called"):
        onnx_parity.register_custom_op_symbolic(name, lambda g, x, *how: x, 9)


def test_a_lowering_that_would_never_be_called_is_refused() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.register_custom_op_symbolic("aten::reshape", lambda g, x, shape: x, 9)
    assert str(caught.value) == (
        "a lowering of aten::reshape would never be called, because torch always decomposes that operator: register "
        "lowerings of the operators that capture_program(...).operators lists"
    )


def test_too_few_parameters() -> None:
    onnx_parity.register_custom_op_symbolic("aten::elu", lambda g, x: g.op("Elu", x), 9)
    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(nn.ELU(0.5), X)
    assert (
        "it takes 1 arguments after g, but aten::elu has 4 (self, alpha, scale, input_scale), "
        "of which alpha is 0.5 here: add parameters up to that one" in str(caught.value)
    )


def test_the_interface_of_g_op() -> None:
    seen: dict[str, Any] = {}

    def symbolic(g: Any, a: Any, b: Any, attr1: float, attr2: int) -> Any:
        seen["sizes"] = a.type().sizes()
        constant = g.op("Constant", value_t=torch.tensor([1.0, 2.0]))
        first, second = g.op(
            "my.domain::Many", a, b, constant, f_f=1, fs_f=[1, 2.5], i_i=True, is_i=(3, 4), s_s="x", ss_s=["a", "b"],
            t_t=torch.ones(2), none_i=None, outputs=2,
        )  # fmt: skip
        seen["dtype"] = second.type().scalarType()
        return first

    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", symbolic, 9)
    program = onnx_parity.export(FooModel(1.0, 1), (X, X), custom_opsets={"my.domain": 4}, opset_version=9)
    node = next(node for node in program.model_proto.graph.node if node.op_type == "Many")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert onnx.numpy_helper.to_array(attributes.pop("t")).tolist() == [1.0, 1.0]
    assert attributes == {"f": 1.0, "fs": [1.0, 2.5], "i": 1, "is": [3, 4], "s": b"x", "ss": [b"a", b"b"]}
    assert seen == {"sizes": [2, 3], "dtype": "Float"} and len(node.output) == 2
    assert {entry.domain: entry.version for entry in program.model_proto.opset_import} == {"": 9, "my.domain": 4}


def test_types_of_operators_that_onnx_does_not_know() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        counts = g.op("mine::Count", x)
        counts.setType(x.type().with_dtype(torch.int64).with_sizes([2, None]))
        assert x.type().with_sizes([4, None]).sizes() == [4, None] and x.type().dim() == 2
        return g.op("Cast", g.op("Add", counts, 1), to_i=1)

    onnx_parity.register_custom_op_symbolic("aten::relu", symbolic, 9)
    graph = onnx_parity.export(torch.relu, X).model.graph
    assert [node.op_type for node in graph] == ["Count", "Add", "Cast"]
    assert {value.dtype for value in graph.initializers.values()} == {ir.DataType.INT64}


def test_attributes_without_a_type() -> None:
    onnx_parity.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Elu", x, alpha=1.0), 9)
    with pytest.raises(
        onnx_parity.LoweringError, match="attribute 'alpha' has no type: end its name in _f, _i, _s or _t"
    ):
        onnx_parity.export(torch.relu, X)


def test_numbers_take_the_dtype_of_the_value() -> None:
    def symbolic(g: Any, self: Any, other: Any, alpha: Any = 1) -> Any:
        return g.op("Add", self, g.op("Constant", value_t=_if_scalar_type_as(other, self)))

    onnx_parity.register_custom_op_symbolic("aten::add", symbolic, 9)
    program = onnx_parity.export(lambda x: x + 2, X.double())
    assert_agrees(program, lambda x: x + 2, X.double())


@pytest.mark.parametrize(
    ("descriptors", "message"),
    [
        (("v", "i"), "symbolic got 4 arguments after g, but parse_args describes 2: give a descriptor for each"),
        (
            ("i", "v", "f", "i"),
            "the argument 'a' is computed at run time and not known at export: describe it as 'v'",
        ),
    ],
)
def test_wrong_descriptors(descriptors: tuple[str, ...], message: str) -> None:
    @parse_args(*descriptors)
    def symbolic(g: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return a

    onnx_parity.register_custom_op_symbolic("custom_ops::foo_forward", symbolic, 9)
    with pytest.raises(onnx_parity.LoweringError, match=message):
        onnx_parity.export(FooModel(1.0, 1), (X, X))


def test_every_descriptor() -> None:
    got: list[Any] = []

    @parse_args("v", "i", "is", "f", "fs", "b", "s", "t", "none")
    def symbolic(g: Any, *arguments: Any) -> None:
        got.extend(arguments)

    def all_names(g: Any, v: Any, i: Any, many: Any, f: Any, fs: Any, b: Any, s: Any, t: Any, none: Any) -> None:
        got.extend([v, i, many, f, fs, b, s, t, none])

    parse_args("v", "i", "is", "f", "fs", "b", "s", "t", "none")(all_names)(
        None,
        "value",
        2.0,
        (1.0, 2),
        3,
        [4],
        1,
        "text",
        5,
        None,
    )
    assert got[:7] == ["value", 2, [1, 2], 3.0, [4.0], True, "text"]
    assert torch.equal(got[7], torch.tensor(5)) and got[8] is None
    with pytest.raises(
        ValueError, match="parse_args got the descriptor 'x': give one of v, i, is, f, fs, b, s, t, none"
    ):
        parse_args("x")
    with pytest.raises(
        TypeError, match=r"the argument 'i' is \[1, 2\], but parse_args describes it as 'i': write 'is' or 'fs'"
    ):
        parse_args("v", "i")(all_names)(None, "v", [1, 2])  # type: ignore[call-arg]


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float, more: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.low = low
        return x.clamp(min=low), more.double()

    @staticmethod
    def symbolic(g: Any, x: Any, low: float, more: Any) -> Any:
        return g.op("Max", x, low), g.op("Clip64", more)


def clipped(x: torch.Tensor) -> Any:
    return Clip.apply(x * 2, 0.5, x)  # type: ignore[no-untyped-call]


def test_autograd_functions_with_a_symbolic_of_their_own() -> None:
    program = onnx_parity.export(clipped, X, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    assert [(node.domain, node.op_type) for node in program.model.graph] == [
        ("", "Mul"),
        ("", "Max"),
        (__name__, "Clip64"),
    ]
    assert [value.dtype.name for value in program.model.graph.outputs if value.dtype] == ["FLOAT", "DOUBLE"]
    assert str(program.model.graph.outputs[0].shape) == "[batch,3]"
    with torch.no_grad():
        assert torch.equal(clipped(X)[0], (X * 2).clamp(min=0.5))


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Mul", x, 0.5)


#: As many keep it, from before any export.
halved: Any = Halved.apply
clip: Any = Clip.apply
#: What others have of torch's, which is Python before torch 2.15, and C since.
STATE = [getattr(torch.autograd.Function.apply, "__code__", None), torch.autograd.Function.setup_context]


def test_autograd_functions_that_were_kept_by_their_apply() -> None:
    program = onnx_parity.export(lambda x: clip(halved(x), 0.5, x)[0], X)
    assert [node.op_type for node in program.model.graph] == ["Mul", "Max"]
    function = torch.autograd.Function
    assert [getattr(function.apply, "__code__", None), function.setup_context] == STATE
    assert torch.equal(clip(halved(X), 0.5, X)[0], (X / 2).clamp(min=0.5))


def test_what_reads_the_result_of_an_autograd_function() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = Halved.apply(x)  # type: ignore[no-untyped-call]
        return y + 1 if y.sum() > -100 else y

    exported = onnx_parity.export(program, X, strict=True)
    assert [node.op_type for node in exported.model.graph] == ["Mul", "ReduceSum", "Greater", "If"]
    assert_agrees(exported, program, X)
    assert_agrees(exported, program, X - 1000)


@pytest.mark.parametrize("key", ["packet", "overload", "name"])
def test_custom_translation_table(key: str) -> None:
    keys = {
        "packet": torch.ops.custom_ops.foo_forward,
        "overload": torch.ops.custom_ops.foo_forward.default,
        "name": "custom_ops::foo_forward",
    }
    model = FooModel(0.5, 3)

    def lower(g: Any, a: Any, b: Any, attr1: float, attr2: int) -> Any:
        return g.op("Add", g.op("Mul", a, attr1), g.op("Mul", b, attr2))

    program = onnx_parity.export(model, (X, X + 1), custom_translation_table={keys[key]: lower})
    assert_agrees(program, model, X, X + 1)
    with pytest.raises(onnx_parity.UnsupportedOperatorsError):
        onnx_parity.export(model, (X, X + 1))


def test_functions_of_onnxscript_in_the_table() -> None:
    class Script:
        """What onnxscript's functions answer."""

        def to_function_proto(self) -> onnx.FunctionProto:
            nodes = [
                onnx.helper.make_node("Constant", [], ["c"]),
                onnx.helper.make_node("Mul", ["a", "c"], ["left"]),
                onnx.helper.make_node("Add", ["left", "b"], ["out"]),
            ]
            nodes[0].attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="attr1", type="FLOAT"))
            imports = [onnx.helper.make_opsetid("", 18)]
            return onnx.helper.make_function("mine", "Foo", ["a", "b"], ["out"], nodes, imports, ["attr1", "attr2"])

    model = FooModel(0.5, 1)
    program = onnx_parity.export(
        model, (X, X + 1), custom_translation_table={torch.ops.custom_ops.foo_forward: Script()}
    )
    assert [function.name for function in program.model.functions.values()] == ["Foo"]
    assert_agrees(program, model, X, X + 1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"nonsense": lambda g: g},
            "custom_translation_table has the key 'nonsense', which is not an operator: give torch.ops.namespace.name, "
            "one of its overloads, or 'namespace::name'",
        ),
        (
            {"aten::relu": 3},
            "custom_translation_table gives 3 for aten::relu: give a function whose first parameter is g, "
            "def lower(g, x): return g.op('Relu', x), or a function of ONNX that has to_function_proto()",
        ),
    ],
)
def test_wrong_tables(table: dict[Any, Any], message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.relu, X, custom_translation_table=table)
    assert str(caught.value) == message


def test_operators_made_with_custom_op() -> None:
    @torch.library.custom_op("parity_made::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    program = onnx_parity.export(
        lambda x: twice(x) + 1, X, custom_translation_table={"parity_made::twice": lambda g, x: g.op("Add", x, x)}
    )
    assert_agrees(program, lambda x: twice(x) + 1, X)


def test_names_of_functions() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.local_function("Foo")
    assert str(caught.value) == "'Foo' is not the name of a function: write 'domain::Name', e.g. 'my_domain::Foo'"


@pytest.mark.parametrize("result", [3, None])
def test_a_lowering_that_returns_no_value_is_reported(result: object) -> None:
    with pytest.raises(onnx_parity.LoweringError) as caught:
        onnx_parity.export(torch.nn.ELU(), torch.ones(2), custom_translation_table={"aten::elu": lambda g, *_: result})
    assert str(caught.value).startswith(
        f"the lowering of aten.elu.default returned {result}: return a value of the graph, such as g.op returns"
    )


def test_what_cannot_be_registered() -> None:
    register: Any = onnx_parity.register_custom_op_symbolic
    for arguments, message in (
        ((3, print, 9), "symbolic_name is 3: write it as 'namespace::name', e.g. 'aten::elu'"),
        (("::elu", print, "9"), "opset_version is '9': give an int, the first opset that it is for"),
        (
            ("::elu", 3, 9),
            "symbolic_fn is 3: give a function whose first parameter is g, def lower(g, x): return g.op('Relu', x)",
        ),
    ):
        with pytest.raises(onnx_parity.ArgumentError) as caught:
            register(*arguments)
        assert str(caught.value) == message
    bare: Any = onnx_parity.lowering
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        bare(print)
    assert (
        str(caught.value)
        == "lowering takes the names of operators as strings: write @onnx_parity.lowering('aten::elu')"
    )


class _MaskedSoftmax(torch.autograd.Function):
    """As transformers has it for DeBERTa."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(~mask, -9.0), -1)

    @staticmethod
    def symbolic(g: Any, x: Any, mask: Any) -> Any:
        from torch.onnx.symbolic_opset9 import softmax

        return softmax(g, x, -1)


def test_the_forward_is_recorded_where_symbolic_needs_torchs_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _MaskedSoftmax.apply(x, x > 0)  # type: ignore[no-untyped-call]
        return result

    assert_agrees(onnx_parity.export(program, X), program, X)
