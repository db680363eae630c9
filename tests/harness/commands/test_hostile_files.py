"""Files and command lines that are invalid on purpose: an error of one line, and exit code 2."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import NodeProto, TensorProto, helper
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.commands.model_source import SourceError, read_weights
from tests.harness.fuzz_files import fuzz

X, Y = helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("y", 1, [2])
RELU = helper.make_node("Relu", ["x"], ["y"])


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def model(*nodes: NodeProto, initializer: list[TensorProto] | None = None) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph(nodes or [RELU], "g", [X], [Y], initializer=initializer or []))


def with_weight(**fields: Any) -> onnx.ModelProto:
    return model(initializer=[TensorProto(name="w", dims=[2], raw_data=b"12345678", **fields)])


def with_external(**entries: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", dims=[2], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return model(initializer=[tensor])


def with_constant(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    return model(node)


ELSEWHERE = "but ONNX allows files only in the folder of the model and below."
INVALID = "it is not a valid ONNX model ("


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: with_weight(data_type=99), f"{INVALID}ValueError: 99 is not a valid DataType)."),
        (lambda: with_weight(data_type=0), INVALID),
        (lambda: model(helper.make_node("Relu", ["x"], ["y", "y"])), f"{INVALID}ValueError: Output 'y' is redeclared"),
        (lambda: model(RELU, RELU), f"{INVALID}ValueError: Output 'y' is redeclared"),
        (lambda: with_external(location="../../etc/passwd"), f"the data of 'w' is in '../../etc/passwd', {ELSEWHERE}"),
        (lambda: with_external(location="/etc/passwd"), f"the data of 'w' is in '/etc/passwd', {ELSEWHERE}"),
        (lambda: with_external(location="a", offset="-5", length="abc"), INVALID),
        (lambda: with_constant(TensorProto(data_type=99, dims=[2])), f"{INVALID}ValueError: 99 is not"),
        (lambda: with_constant(TensorProto(data_type=1, dims=[2], raw_data=b"1")), INVALID),
    ],
)
def test_models_that_are_none(make: Callable[[], onnx.ModelProto], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(make().SerializeToString())
    for option in ([], ["--json"]) if "Constant" not in str(make()) else ([],):
        code, text = invoke("show", str(path), *option)
        assert code == 2 and text.startswith(f"{path} cannot be shown: {reason}") and text.count("\n") == 1


def test_files_that_an_attribute_names_are_not_read(tmp_path: Path) -> None:
    tensor = TensorProto(data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../../../../../../etc/passwd")
    (tmp_path / "model.onnx").write_bytes(with_constant(tensor).SerializeToString())
    code, text = invoke("show", str(tmp_path / "model.onnx"))
    assert code == 0 and "onnx::Constant[value=FLOAT[2]{...}]()" in text


@pytest.mark.parametrize("name", ["model.onnx", "model.json"])
def test_bytes_that_are_no_model(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"no model \xff" if path.suffix == ".onnx" else b"")
    assert invoke("show", str(path)) == (2, f"{path} cannot be shown: it is not an ONNX file.\n")
    if path.suffix == ".onnx":
        assert invoke("range", str(path)) == (2, f"{path} cannot be read: it is not an ONNX file.\n")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert invoke("show", str(tmp_path / "pipe")) == (2, f"{tmp_path}/pipe cannot be shown: it is not a file.\n")
    code, text = invoke("show", "x" * 5000)
    assert code == 2 and text.count("\n") == 1 and "File name too long" in text


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"x={NINES}", f"--input x={NINES[:78]}... (5,002 characters): no size and no bound has more than 18 digits."),
        ("99999999999x99999999999", "--input 99999999999x99999999999: a tensor of these sizes needs 79,999,999,998,4"),
        ("2x2:qint8", "--input: torch cannot make such a tensor of torch.qint8: "),
        ("2x2:uint1", "--input: torch cannot make such a tensor of torch.uint1: "),
        ("2x2:int64<0", "--input 2x2:int64<0: no integer is from 0 up to and below 0. Write a bound of 1 or more."),
        (f"2:int64<{NINES}", f"--input 2:int64<{NINES[:72]}... (5,008 characters): no size and no bound has more"),
        ("2x2:int8<300", "--input: torch.int8 has no number up to 299. Write a lower bound."),
    ],
)
def test_inputs_that_cannot_be_made(text: str, reason: str) -> None:
    code, output = invoke("export", "torch:relu", "-i", text)
    assert code == 2 and output.startswith(reason) and output.count("\n") == 1


def test_axes_that_cannot_be() -> None:
    code, output = invoke("export", "torch:relu", "-i", "2", "-d", f"x:{NINES}")
    assert (code, output) == (
        2, f"--dynamic x:{NINES[:78]}... (5,002 characters): no axis has more than 18 digits.\n"
    )  # fmt: skip


def test_weights_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "layers_of_tests.py").write_text("from torch import nn\ndef linear():\n    return nn.Linear(4, 2)\n")
    objects: dict[str, object] = {"list.pt": [1, 2], "tensor.pt": torch.ones(2), "keys.pt": {3: torch.ones(2)}}
    contents = {
        "pickle.pt": b"\x80\x02.",
        "empty.pt": b"",
        "short.safetensors": b"xx",
        "long.safetensors": b"\xff" * 40,
    }
    told = {
        "list.pt": "it has no weights by their names, but an object of type list",
        "tensor.pt": "it has no weights by their names, but an object of type Tensor",
        "keys.pt": "it has no weights by their names, but a dict of other keys",
        "pickle.pt": "it is not a state dict that torch.save wrote (pop from empty list)",
        "empty.pt": "it is not a state dict that torch.save wrote ()",
        "short.safetensors": "it is not a safetensors file (",
        "long.safetensors": "it is not a safetensors file (",
    }
    for name, held in objects.items():
        torch.save(held, tmp_path / name)
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        for name, reason in told.items():
            path = tmp_path / name
            code, text = invoke("export", "layers_of_tests:linear", "-i", "2x4", "--weights", str(path))
            assert code == 2 and text.startswith(f"--weights {path} cannot be loaded: {reason}"), text
            assert text.count("\n") == 1


def test_what_torch_finds_unusual_in_weights_is_no_line_of_its_own(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "state.pt", pickle_protocol=4)
    with warnings.catch_warnings(record=True) as told, pytest.raises(SourceError):
        read_weights(tmp_path / "state.pt")
    assert told == []


def test_changed_bytes() -> None:
    """More of them: `python -m tests.harness.fuzz_files 10000`."""
    assert fuzz(400) == []
