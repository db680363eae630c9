"""The result of an export: its model, calls of it, and results in the structure of the module's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest
import torch

import onnx_parity
from onnx_parity.exporter.errors import OnnxExporterWarning
from tests.exporter.subjects import Classifier, assert_agrees, images


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def test_model_and_proto_are_one_model() -> None:
    program = onnx_parity.export(Classifier().eval(), (images(),), opset_version=17)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == program.opset_version == 17
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in program.model.graph]
    assert program.input_names == ("input",) and program.output_names == ("output",)


def test_what_a_notebook_shows() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    program = onnx_parity.export(model, torch.randn(3, 4), input_names=["a<b"], dynamic_axes={"a<b": {0: "batch"}})
    shown = program._repr_html_()
    assert "<b>ONNXProgram</b>, opset 18: 3 nodes, 120 bytes of weights" in shown
    assert "<td>input</td><td><code>a&lt;b</code></td><td><code>Float(batch, 4)</code></td>" in shown
    assert "<td>output</td><td><code>output</code></td><td><code>Float(batch, 2)</code></td>" in shown
    assert "Gemm × 2, Relu" in shown
    assert "<details><summary>graph</summary><pre># opset onnx 18" in shown


def test_the_page_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    program = onnx_parity.export(
        model, torch.randn(3, 4), input_names=["a<b"], dynamic_axes={"a<b": {0: "batch"}}, assume=["batch > 1"]
    )
    page = program.show(tmp_path / "page.html")
    assert page == tmp_path / "page.html" and opened == [page.as_uri()]
    assert capsys.readouterr().out == f"{page}\n", "there is no browser"
    text = page.read_text(encoding="utf-8")
    assert "<title>Sequential</title>" in text and "opset 18: 3 nodes, 120 bytes of weights" in text
    assert '<a id="a&lt;b">%a&lt;b</a> : Float(batch, 4)' in text and '(<a href="#a&lt;b">%a&lt;b</a>, ' in text
    assert "<td><code>0.weight</code></td><td><code>Float(4, 4)</code></td><td>64 bytes</td>" in text
    elsewhere = program.show()
    assert elsewhere.name == "model.html" and elsewhere.parent != tmp_path


def test_the_conditions_under_which_a_model_is_right_are_shown() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 2 else x

    exported = onnx_parity.export(program, torch.ones(3), dynamic_axes={"x": {0: "n"}}, assume=["n > 2"])
    assert "<p>It is right if:</p><ul><li>n &gt; 2" in exported._repr_html_()


def test_repr() -> None:
    program = onnx_parity.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    assert repr(program) == "ONNXProgram(opset 18: input -> output; 1 node, 32 bytes of weights)"


def test_nested_arguments_and_results() -> None:
    def nested(pair: Pair, more: dict[str, list[torch.Tensor]], factor: int, nothing: None) -> dict[str, Any]:
        total = pair.left + pair.right * factor
        return {"pair": Pair(total, more["b"][0]), "rest": (None, 3, "text", [more["a"][0] * 2, 1.5])}

    x = torch.arange(3.0)
    args = (Pair(x, x + 1), {"b": [x * 3], "a": [x - 1, x]}, 2, None)
    program = onnx_parity.export(nested, args)
    result = program(*args)
    expected = nested(*args)
    assert isinstance(result["pair"], Pair)
    torch.testing.assert_close(result["pair"], expected["pair"])
    assert result["rest"][:3] == (None, 3, "text") and result["rest"][3][1] == 1.5
    torch.testing.assert_close(result["rest"][3][0], expected["rest"][3][0])
    assert program.input_names == ("pair_0", "pair_1", "more_0", "more_1", "more_2")


def test_dynamic_sizes_are_returned_as_numbers() -> None:
    def sizes(x: torch.Tensor) -> tuple[torch.Tensor, int, int, float, bool]:
        return x * 2, x.shape[0], x.shape[0] * 2 + 1, x.shape[0] / 2, x.shape[0] >= 3

    program = onnx_parity.export(sizes, (torch.ones(3, 2),), dynamic_axes={"x": [0]})
    for size in (3, 1, 6):
        numbers = program(torch.ones(size, 2))[1:]
        assert numbers == (size, size * 2 + 1, size / 2, size >= 3)
        assert [type(number) for number in numbers] == [int, int, float, bool]


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    table = torch.arange(4.0)

    def outputs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return x, x, table, table, y, y, torch.ones(2)

    program = onnx_parity.export(outputs, (torch.zeros(2),))
    assert_agrees(program, outputs, torch.tensor([5.0, 6.0]))
    assert len(set(program.output_names)) == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    module = torch.nn.Linear(4, 3).to(dtype)
    x = torch.linspace(-1, 1, 8).reshape(2, 4).to(dtype)
    result = onnx_parity.export(module, (x,))(x)
    assert result.dtype is dtype
    torch.testing.assert_close(result, module(x).detach(), rtol=2e-2, atol=2e-2)


def test_wrong_number_of_tensors() -> None:
    program = onnx_parity.export(torch.add, (torch.ones(2), torch.ones(2)))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(torch.ones(2))
    takes = "the model takes 2 tensors (input_0, input_1)"
    assert str(caught.value) == f"{takes}, but got 1: 'input_1' is missing, give it too"


def test_verbose_prints_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    onnx_parity.export(torch.nn.ReLU(), (torch.ones(2, 3),), verbose=True, opset_version=9)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "# opset onnx 9; IR version 4"
    assert printed[1] == "graph(%input : Float(2, 3)) {"
    assert printed[2].startswith("  %output : Float(2, 3) = onnx::Relu(%input), scope: ReLU # ")
    assert printed[3:] == ["  return (%output)", "}"]


def test_reference_evaluation_is_structured_alike() -> None:
    program = onnx_parity.export(lambda x: {"a": x + 1, "n": 3}, torch.ones(2))
    assert program.call_reference(torch.ones(2))["n"] == 3
    torch.testing.assert_close(program.call_reference(torch.ones(2))["a"], torch.full((2,), 2.0))


def test_weights_that_come_later_reach_what_was_made_of_them() -> None:
    first, second = Classifier().eval(), Classifier().eval()
    lstms = torch.nn.LSTM(8, 4), torch.nn.LSTM(8, 4)
    x = torch.linspace(-1, 1, 48).reshape(3, 2, 8)
    for one, other, args in ((first, second, images()), (*lstms, x)):
        program = onnx_parity.export(one, args)
        program(args)
        program.apply_weights(other.state_dict())
        assert_agrees(program, other, args)


class Biased(torch.nn.Module):
    """Attention whose mask is a bias that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x[:, :3], x, x, attn_mask=self.bias * 2)


def test_biases_of_attention_that_were_seen_to_be_finite_can_be_replaced() -> None:
    first, second, x = Biased(), Biased(), torch.randn(2, 4, 3)
    program = onnx_parity.export(first, x)
    assert "ReduceMax" not in {node.op_type for node in program.model.graph}
    program.apply_weights(second.state_dict())
    assert_agrees(program, second, x)


class Masked(torch.nn.Module):
    """Attention whose mask is a part of a buffer."""

    mask: torch.Tensor

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.register_buffer("mask", torch.where(torch.arange(3)[:, None] == 1, lowest, torch.zeros(3, 9)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x[:, :3], x, x, attn_mask=self.mask[:, :4])


class Seen(torch.nn.Module):
    """Conditions of buffers that are true in the example, and expanded."""

    seen: torch.Tensor
    start: torch.Tensor

    def __init__(self, seen: bool, start: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((1, 3), seen))
        self.register_buffer("start", torch.tensor([start]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x > 0) & self.seen.expand(4, 3), torch.arange(x.shape[0]) >= self.start.expand(x.shape[0])


class Scaled(torch.nn.Module):
    """Numbers that are weights: the epsilon of a norm, a factor, and a bound."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.epsilon, self.factor, self.bound = (torch.nn.Parameter(torch.tensor(number)) for number in numbers)
        self.scale, self.bias = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        centred = x - x.mean(-1, keepdim=True)
        normed = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + self.epsilon)
        condition = (x > 0).float()
        return normed * self.scale + self.bias, condition * self.factor, condition > self.bound, self.factor / x.sqrt()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Masked(0.0), Masked(-float("inf"))),
        (Seen(True, 0), Seen(False, 1)),
        (Scaled(1e-5, 1.0, 0.0), Scaled(0.5, float("inf"), 2.0)),
    ],
)
def test_no_fusion_takes_weights_for_constants(first: torch.nn.Module, second: torch.nn.Module) -> None:
    x = torch.rand(2, 4, 3)
    program = onnx_parity.export(first, x)
    program.apply_weights(second.state_dict())
    assert_agrees(program, second, x)


def test_what_is_added_to_a_model_has_no_name_of_an_output() -> None:
    program = onnx_parity.export(lambda x: ((x > 0) * 2.0, x + 1), torch.randn(2, 3), output_names=["y", "y_number_0"])
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert [each.name for each in program.model_proto.graph.output] == ["y", "y_number_0"]


def test_weights_on_the_meta_device_are_supplied_later() -> None:
    with torch.device("meta"):
        empty = torch.nn.Linear(3, 2)
    program = onnx_parity.export(empty, torch.ones(1, 3, device="meta"))
    with pytest.raises(onnx_parity.WriteError, match="has no data"):
        program.serialize()
    full = torch.nn.Linear(3, 2)
    program.apply_weights(full.state_dict())
    assert_agrees(program, full, torch.ones(1, 3))


class Rotated(torch.nn.Module):
    """What depends on positions and on a weight is computed when the weight is known."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = torch.nn.Buffer(torch.rand(1, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = (self.frequencies @ torch.arange(x.shape[1])[None, None].float()).transpose(1, 2)
        return x * (angles.cos() * 0.5) + angles.sin().mul(torch.tensor([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_is_computed_from_weights_on_the_meta_device_is_supplied_later(device: str) -> None:
    with torch.device("meta"):
        empty = Rotated()
    program = onnx_parity.export(empty, torch.ones(2, 3, 4, device=device))
    with pytest.raises(onnx_parity.WriteError, match="has no data"):
        program.serialize()
    full = Rotated()
    program.apply_weights(full.state_dict())
    assert_agrees(program, full, torch.randn(2, 3, 4))


def test_inputs_on_the_meta_device_have_no_data_to_run_with() -> None:
    x = torch.ones(1, 3, device="meta")
    program = onnx_parity.export(torch.nn.ReLU(), x)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(x)
    assert str(caught.value) == "the input 'input' is on the meta device, which has no data: give its values"
    with pytest.raises(onnx_parity.VerificationError, match="an example input is on the meta device"):
        onnx_parity.export(torch.nn.ReLU(), x, verify=True)


def test_wrong_weights() -> None:
    class Chosen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("where", torch.tensor([True, False, True]))

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x), x[0][self.get_buffer("where")]

    program = onnx_parity.export(Chosen(), torch.ones(1, 3))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.apply_weights({"linear.weight": torch.ones(3, 3)})
    assert str(caught.value) == (
        "the weight 'linear.weight' is torch.float32[2, 3] in the model, but torch.float32[3, 3] was given: give one "
        "of the same dtype and shape"
    )
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.apply_weights({"where": torch.tensor([True, True, True])})
    assert str(caught.value) == (
        "the weight 'where' cannot be replaced, because its value was read during the export and is built into the "
        "model: set the new value in the module and export again"
    )
    for wrong, message in (
        (3, "state_dict is 3: give a dict of tensors by the names of weights, model.state_dict()"),
        ({"linear.weight": 3}, "the weight 'linear.weight' is given as 3: give a tensor"),
    ):
        with pytest.raises(onnx_parity.ArgumentError) as caught:
            program.apply_weights(wrong)  # type: ignore[arg-type]
        assert str(caught.value) == message
    with pytest.warns(
        OnnxExporterWarning, match="the model has no weight 'other', which is ignored: its weights are "
    ) as warned:
        program.apply_weights({"other": torch.ones(1)})
    assert warned[0].filename == __file__


def test_optimising_afterwards_is_what_exporting_would_have_done() -> None:
    model = Classifier().eval()
    plain = onnx_parity.export(model, images(), optimize=False)
    assert "BatchNormalization" in {node.op_type for node in plain.model.graph}
    plain.optimize()
    assert plain.serialize() == onnx_parity.export(model, images()).serialize()


def test_values_inside() -> None:
    program = onnx_parity.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.ones(1, 3))
    hidden = program.model.graph[0].outputs[0].name
    assert hidden is not None
    inner, outer, bias = program.compute_values([hidden, "output", "0.bias"], (torch.ones(1, 3),))
    torch.testing.assert_close(inner.relu(), outer)
    assert bias.shape == (2,) and program.output_names == ("output",)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.compute_values(["nonsense"], (torch.ones(1, 3),))
    assert str(caught.value) == "the model has no value 'nonsense': print(program) shows the values that it has"
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.compute_values("output", (torch.ones(1, 3),))
    assert str(caught.value) == "value_names is 'output': give a list of names, ['x', 'y']"


def test_values_inside_of_one_argument_or_of_none() -> None:
    program = onnx_parity.export(torch.nn.ReLU(), torch.ones(1, 3))
    (value,) = program.compute_values(["output"], torch.ones(1, 3))  # type: ignore[arg-type]
    assert torch.equal(value, torch.ones(1, 3))
    assert program.compute_values([], torch.ones(1, 3)) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("external_data", "external_data is 'yes': give True or False. "),
        ("include_initializers", "include_initializers is 'yes': give True or False. "),
    ],
)
def test_wrong_options_of_saving(tmp_path: Path, name: str, message: str) -> None:
    program = onnx_parity.export(torch.nn.ReLU(), torch.ones(1, 3))
    options: dict[str, Any] = {name: "yes"}
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.save(tmp_path / "model.onnx", **options)
    assert str(caught.value).startswith(message)
    assert not [*tmp_path.iterdir()]


def test_axes_renamed() -> None:
    program = onnx_parity.export(
        lambda x: torch.cat([x, x]), torch.ones(2, 3), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "s"}}
    )
    axis = program.model.graph.inputs[0].shape
    assert axis is not None
    program.rename_axes({"batch": "N", axis[1]: "width"})  # type: ignore[arg-type]
    assert [str(value.shape) for value in (*program.model.graph.inputs, *program.model.graph.outputs)] == [
        "[N,width]",
        "[2*N,width]",
    ]
    assert program(torch.ones(4, 1)).shape == (8, 1)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.rename_axes({"batch": "M"})
    assert str(caught.value) == "no axis of the model is called 'batch': its dynamic axes are N, width"
    wrong: Any
    for wrong, message in (
        (3, "rename_mapping is 3: give a dict of names, {'batch': 'N'}"),
        ({"N": 3}, "rename_mapping has 'N': 3: give names of axes, which are strings that are not empty"),
        ({3: "N"}, "rename_mapping has 3: 'N': give names of axes, which are strings that are not empty"),
        ({"N": ""}, "rename_mapping has 'N': '': give names of axes, which are strings that are not empty"),
    ):
        with pytest.raises(onnx_parity.ArgumentError) as caught:
            program.rename_axes(wrong)
        assert str(caught.value) == message


def test_axes_that_differ_keep_names_that_differ() -> None:
    names = {"x": {0: "rows"}, "y": {1: "columns"}}
    args = (torch.ones(2, 3), torch.ones(3, 4))
    program = onnx_parity.export(torch.matmul, args, input_names=["x", "y"], dynamic_axes=names)
    for wrong in ({"rows": "columns"}, {"rows": "n", "columns": "n"}):
        with pytest.raises(onnx_parity.ArgumentError) as caught:
            program.rename_axes(wrong)
        assert str(caught.value) == (
            f"two axes would be called {wrong['rows']!r}, but axes of one name have equal sizes: give them different "
            f"names"
        )
    program.rename_axes({})
    program.rename_axes({"rows": "columns", "columns": "rows"})
    assert str(program.model.graph.outputs[0].shape) == "[columns,rows]"


def test_an_own_session() -> None:
    import onnxruntime

    made = []

    def initializer(model: str | bytes) -> onnxruntime.InferenceSession:
        made.append(type(model))
        return onnxruntime.InferenceSession(model)

    program = onnx_parity.export(torch.relu, torch.ones(2))
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program.initialize_inference_session(3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "initializer is 3: give a function that creates an onnxruntime.InferenceSession from a model's bytes or path"
    )
    program.initialize_inference_session(initializer)
    program(torch.ones(2))
    program.release()
    program(torch.ones(2))
    assert made == [bytes]


@pytest.mark.parametrize(("included", "listed"), [(True, True), (False, True), (False, False)])
def test_saving_without_weights_or_with_them_as_inputs(tmp_path: Path, included: bool, listed: bool) -> None:
    program = onnx_parity.export(torch.nn.Linear(3, 2), torch.ones(1, 3))
    path = tmp_path / "model.onnx"
    program.save(path, include_initializers=included, keep_initializers_as_inputs=listed)
    graph = onnx.load(path).graph
    assert [tensor.name for tensor in graph.initializer] == (["weight", "bias"] if included else [])
    assert [value.name for value in graph.input] == (["input", "weight", "bias"] if listed else ["input"])
    assert_agrees(program, program.source.program, torch.ones(1, 3))


def test_tied_weights_have_several_names() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.embedding(ids))
            return logits

    ids = torch.arange(6).reshape(2, 3)
    first, second = Tied(), Tied()
    program = onnx_parity.export(first, ids)
    program.apply_weights(second.state_dict())
    assert_agrees(program, second, ids)
    assert onnx_parity.export(first, ids, export_params=False).weight_names == ("embedding.weight",)


def test_a_learned_part_of_a_mask_stays_finite() -> None:
    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(5, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.ones(5, 5).triu(1) > 0
            mask = torch.zeros(5, 5).masked_fill(hidden, float("-inf")) + self.bias
            attended: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
            return attended

    model, x = Biased(), torch.randn(1, 2, 5, 8)
    program = onnx_parity.export(model, (x,))
    bias = torch.randn(5, 5)
    program.apply_weights({"bias": bias})
    model.load_state_dict({"bias": bias})
    torch.testing.assert_close(program(x), model(x))
    bias[2] = float("-inf")
    with pytest.raises(onnx_parity.ArgumentError, match="a part of a mask of attention"):
        program.apply_weights({"bias": bias})
    torch.testing.assert_close(program(x), model(x))
