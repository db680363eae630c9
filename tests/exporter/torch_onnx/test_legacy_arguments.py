"""Arguments of older versions of `torch.onnx`: their effects, and refusals of contradictions."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter import OperatorExportTypes
from tests.exporter.subjects import Classifier, assert_agrees, images

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def domains(program: onnx_parity.ONNXProgram) -> set[str]:
    return {node.domain for node in program.model.graph}


def test_positional_order_is_that_of_the_documentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    program = onnx_parity.export(
        nn.Linear(3, 2),
        X,
        str(path),
        True,  # export_params
        True,  # verbose
        False,  # training
        ["x"],
        ["y"],
        False,  # aten
        False,  # export_raw_ir
        None,  # operator_export_type
        9,  # opset_version
        True,  # _retain_param_name
        False,  # do_constant_folding
        None,  # example_outputs
        True,  # strip_doc_string
        {"x": {0: "batch"}},
    )
    assert program.opset_version == onnx.load(path).opset_import[0].version == 9
    assert "%x : Float(batch, 3)" in capsys.readouterr().out and program.output_names == ("y",)


def test_without_parameters_weights_are_inputs_in_the_state_dict_s_order() -> None:
    model = Classifier().eval()
    program = onnx_parity.export(model, images(), export_params=False, input_names=["image"])
    state = model.state_dict()
    proto = program.model_proto
    assert [value.name for value in proto.graph.input] == ["image", *state]
    assert program.input_names == ("image",) and program.weight_names == tuple(state)
    onnx.checker.check_model(proto, full_check=True)
    # Folding would have built the values in.
    assert "BatchNormalization" in {node.op_type for node in proto.graph.node}
    assert_agrees(program, model, images())
    doubled = {name: tensor * 2 for name, tensor in state.items()}
    session = program.runtime_session().session
    feeds = {name: tensor.numpy() for name, tensor in {"image": images(), **doubled}.items()}
    other = Classifier().eval()
    other.load_state_dict(doubled)
    torch.testing.assert_close(torch.from_numpy(session.run(None, feeds)[0]), other(images()), rtol=1e-4, atol=1e-5)


def test_without_parameters_tied_weights_are_one_input_under_the_first_name() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    program = onnx_parity.export(model, X, export_params=False, input_names=["x", "first"])
    state = model.state_dict()
    assert list(state) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert program.weight_names == ("first", "0.bias", "2.bias")
    program = onnx_parity.export(model, X, export_params=False)
    assert program.weight_names == ("0.weight", "0.bias", "2.bias")
    # As torch.onnx itself has them.
    assert program.weight_names == tuple(torch.jit._unique_state_dict(model))  # type: ignore[attr-defined, no-untyped-call]
    feeds = {"input": X.numpy(), **{name: (state[name] * 2).numpy() for name in program.weight_names}}
    doubled = torch.from_numpy(program.runtime_session().session.run(None, feeds)[0])
    model.load_state_dict({name: tensor * 2 for name, tensor in state.items()})
    torch.testing.assert_close(doubled, model(X))


def test_without_parameters_even_small_weights_are_not_built_in() -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, dtype=torch.float16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.weight.float()

    program = onnx_parity.export(Cast(), X, export_params=False)
    feeds = {"x": X.numpy(), "weight": torch.full((3,), 5.0, dtype=torch.float16).numpy()}
    assert torch.equal(torch.from_numpy(program.runtime_session().session.run(None, feeds)[0]), X + 5)


def test_weights_whose_names_are_taken_have_others() -> None:
    program = onnx_parity.export(nn.Linear(3, 2), X, input_names=["weight"], export_params=False, verify=True)
    assert (program.input_names, program.weight_names) == (("weight",), ("weight_1", "bias"))


def test_a_weight_that_would_be_an_input_of_a_taken_name() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(Unused(), X, export_params=False)
    assert str(caught.value) == (
        "the weight 'x' would become an input with the name of another input, output or value: "
        "give other input_names and output_names"
    )


@pytest.mark.parametrize("opset", [9, 18])
def test_initializers_kept_as_inputs_can_be_overridden(opset: int) -> None:
    model = Classifier().eval()
    program = onnx_parity.export(model, images(), opset_version=opset, keep_initializers_as_inputs=True)
    assert program.input_names == ("input",)
    assert {"features.0.weight", "head.bias"} <= {value.name for value in program.model.graph.inputs}
    assert_agrees(program, model, images())
    bias = model.head.bias.detach() + 1
    feeds = {"input": images().numpy(), "head.bias": bias.numpy()}
    got = torch.from_numpy(program.runtime_session().session.run(None, feeds)[0])
    torch.testing.assert_close(got, model(images()).detach() + 1, rtol=1e-4, atol=1e-5)


def test_initializers_are_no_inputs_by_default() -> None:
    program = onnx_parity.export(nn.Linear(3, 2), X, opset_version=9)
    assert [value.name for value in program.model.graph.inputs] == ["input"]


@pytest.mark.parametrize("retain", [True, False])
def test_parameter_names(retain: bool) -> None:
    program = onnx_parity.export(nn.Linear(3, 2), X, _retain_param_name=retain)
    assert list(program.model.graph.initializers) == (["weight", "bias"] if retain else ["1", "2"])


def test_names_beyond_the_inputs_name_the_weights_as_in_the_documentation() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    names = ["actual_input_1", *(f"learned_{number}" for number in range(4))]
    text = str(onnx_parity.export(model, X, input_names=names, output_names=["output1"], opset_version=9))
    lines = text.splitlines()
    assert lines[1:6] == [
        "graph(%actual_input_1 : Float(2, 3),",
        "      %learned_0 : Float(4, 3),",
        "      %learned_1 : Float(4),",
        "      %learned_2 : Float(2, 4),",
        "      %learned_3 : Float(2)) {",
    ]
    assert re.fullmatch(
        r"  %output1 : Float\(2, 2\) = onnx::Gemm\[transB=1\]"
        r"\(%\w+, %learned_2, %learned_3\), scope: Sequential/Linear\[1\] # .*test_legacy_arguments\.py:\d+",
        lines[7],
    )


@pytest.mark.parametrize(
    ("asked", "style"),
    [
        ({"aten": True}, OperatorExportTypes.ONNX_ATEN),
        ({"export_raw_ir": True}, OperatorExportTypes.RAW),
        ({"operator_export_type": OperatorExportTypes.ONNX_ATEN_FALLBACK}, OperatorExportTypes.ONNX_ATEN_FALLBACK),
        ({}, OperatorExportTypes.ONNX),
    ],
)
def test_operator_export_types(asked: dict[str, Any], style: OperatorExportTypes) -> None:
    expected = {OperatorExportTypes.ONNX_ATEN: {"org.pytorch.aten"}, OperatorExportTypes.RAW: {"aten"}}
    assert domains(onnx_parity.export(torch.relu, X, **asked)) == expected.get(style, {""})


def test_torch_s_own_enumerations_are_understood() -> None:
    import torch.onnx

    module = nn.Sequential(nn.Dropout())
    program = onnx_parity.export(
        module,
        X,
        training=torch.onnx.TrainingMode.PRESERVE,
        operator_export_type=torch.onnx.OperatorExportTypes.ONNX_ATEN,
    )
    assert domains(program) == {"org.pytorch.aten"} and module.training


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"aten": True, "export_raw_ir": True},
            "aten, export_raw_ir and operator_export_type are three forms of the same request: "
            "give operator_export_type alone",
        ),
        (
            {"operator_export_type": "ONNX"},
            "operator_export_type is 'ONNX': give one of onnx_parity.OperatorExportTypes: "
            "ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH, RAW",
        ),
        (
            {"aten": OperatorExportTypes.RAW},
            "aten is <OperatorExportTypes.RAW: 'RAW'>: give True or False. Give the arguments after `f` by name, since "
            "versions of torch.onnx differ in their order",
        ),
        (
            {"autograd_inlining": False},
            "autograd_inlining=False requests autograd functions as Python operators, which no runtime can execute: "
            "give the function a `symbolic`, or leave the argument out to export its forward",
        ),
        (
            {"example_outputs": (X, X)},
            "example_outputs has 2 tensors, but the program returns 1: give the program's results, or leave it out",
        ),
        (
            {"example_outputs": X.double()},
            "example_outputs[0] is of torch.float64 with 2 axes, but the program returns torch.float32 with 2: give "
            "the program's results, or leave it out",
        ),
        (
            {"example_outputs": torch.ones(2, 4)},
            "example_outputs[0] has size 4 along axis 1, but the program's output has size 3: give the program's "
            "results, or leave it out",
        ),
        (
            {"custom_opsets": {"mine": 2}},
            "custom_opsets names 'mine', but the model has no operator of this domain: its domains are ai.onnx",
        ),
    ],
)
def test_what_contradicts_itself(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.relu, X, **asked)
    assert str(caught.value) == message


def test_example_outputs_that_agree() -> None:
    assert_agrees(onnx_parity.export(torch.relu, X, example_outputs=torch.relu(X), dynamo=False), torch.relu, X)
    # A size that varies is any.
    onnx_parity.export(
        torch.relu, X, input_names=["x"], dynamic_axes={"x": [0]}, example_outputs=torch.relu(torch.ones(5, 3))
    )


@pytest.mark.parametrize("mode", [True, False, None])
def test_set_training(mode: bool | None) -> None:
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3))
    model[0].eval()
    with onnx_parity.set_training(model, mode):
        assert [part.training for part in model] == ([False, True] if mode is None else [mode, mode])
    assert [part.training for part in model] == [False, True]


def test_is_in_onnx_export_ours_and_torch_s() -> None:
    import torch.onnx

    seen = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append((onnx_parity.is_in_onnx_export(), torch.onnx.is_in_onnx_export()))
        return x + 1

    program(X)
    onnx_parity.export(program, X)
    with pytest.raises(onnx_parity.CaptureError):
        onnx_parity.export(lambda x: program(x)[5, 5], X)
    assert seen == [(False, False), (True, True), (True, True)]
    assert not onnx_parity.is_in_onnx_export() and not torch.onnx.is_in_onnx_export()


def test_torch_s_answer_is_that_of_the_thread_that_asks() -> None:
    import torch.onnx

    entered, leave = threading.Barrier(2), threading.Event()

    def waits(x: torch.Tensor) -> torch.Tensor:
        entered.wait()
        leave.wait()
        return x + 1

    def enters(x: torch.Tensor) -> torch.Tensor:
        entered.wait()
        return x + 1

    thread = threading.Thread(target=onnx_parity.export, args=(waits, X))
    thread.start()
    onnx_parity.export(enters, X)
    assert not torch.onnx.is_in_onnx_export() and not onnx_parity.is_in_onnx_export()
    leave.set()
    thread.join()
    assert not torch.onnx.is_in_onnx_export()


def test_shape_as_tensor_follows_sizes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return onnx_parity.operators.reshape_from_tensor_shape(x, onnx_parity.operators.shape_as_tensor(x).flip(0))

    program_ = onnx_parity.export(program, X)
    torch.testing.assert_close(program_(X), X.reshape(3, 2))
    shape = onnx_parity.export(onnx_parity.operators.shape_as_tensor, X, input_names=["x"], dynamic_axes={"x": [0]})
    assert shape(torch.ones(7, 3)).tolist() == [7, 3]


def test_training_mode_keeps_what_trains() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3)).eval()
    trained = onnx_parity.export(model, X, training=onnx_parity.TrainingMode.TRAINING, opset_version=15)
    kept = onnx_parity.export(model, X, training=onnx_parity.TrainingMode.PRESERVE, opset_version=15)
    difference = (trained(X) - kept(X)).abs().max()
    assert difference > 0.1 and not model.training


def test_files_name_their_producer_and_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_parity.export(Classifier().eval(), images(), path)
    proto = onnx.load(path)
    assert (proto.producer_name, proto.producer_version) == ("onnx-parity", "0.1.0")
    assert str(Path(__file__).parent).encode() not in path.read_bytes()
    assert "features.0.weight" in {tensor.name for tensor in proto.graph.initializer}
    again = tmp_path / "again.onnx"
    onnx_parity.export(Classifier().eval(), images(), again, strip_doc_string=True)
    assert all(not node.doc_string for node in onnx.load(again).graph.node)


def test_two_exports_are_the_same_bytes() -> None:
    model = Classifier().eval()
    first, second = (onnx_parity.export(model, images(), strip_doc_string=False).serialize() for _ in range(2))
    assert first == second


def test_doc_strings_name_the_line() -> None:
    program = onnx_parity.export(Classifier().eval(), images(), strip_doc_string=False)
    doc = next(node.doc_string for node in program.model_proto.graph.node if node.op_type == "Relu")
    assert re.fullmatch(r"aten\.relu\.default at .*subjects\.py:\d+ in features\.2", doc)
