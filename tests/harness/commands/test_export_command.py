"""`parity export` and `parity show`: from the name of a model to a file, and the contents of a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
import torch
from typer.testing import CliRunner

from onnx_parity.harness.cli import app

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
    def forward(self, x):
        return self.linear(x).relu()

net = Net()

def embedding():
    return nn.Embedding(50, 4)

def nothing():
    return 3

number = 3

def doubled(x):
    return x * 2

class Sized(nn.Linear):
    def __init__(self, size):
        super().__init__(size, size)

class Pads(nn.Module):
    def forward(self, x):
        rows = -x.shape[0] % 4
        return torch.cat([x, x.new_zeros(rows, 2)]) > 0 if rows else x

class Looks(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > -100 else x.long()

class Exits(nn.Module):
    def forward(self, x):
        raise SystemExit(0)

def exits_at_once():
    raise SystemExit(0)

def fails_at_once():
    raise ValueError("no weights")

def deep():
    module = nn.ReLU()
    for _ in range(2000):
        module = nn.Sequential(module)
    return module

class Unknown(nn.Module):
    def forward(self, x):
        return torch._standard_gamma_grad(x, x + 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / f"models_of_{tmp_path.name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_the_documented_command(folder: Path) -> None:
    code, text = invoke(
        "export", f"models_of_{folder.name}:Net", "--input", "3x4", "--dynamic", "x:0=batch", "--opset", "13",
        "-o", "net.onnx", "--verify",
    )  # fmt: skip
    assert code == 0, text
    assert re.fullmatch(
        r"net\.onnx: ONNXProgram\(opset 13: x -> output; 2 nodes, 40 bytes of weights\), \d+\.\d\d s, "
        r"verified in onnxruntime\n",
        text,
    )
    model = onnx.load("net.onnx")
    assert model.opset_import[0].version == 13
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_no_line_of_the_command_is_named(folder: Path) -> None:
    """torch's own modules have no line of the user's."""
    module = f"models_of_{folder.name}"
    code, text = invoke("export", f"{module}:embedding", "-i", "2x3:int64", "--show")
    assert code == 0 and "onnx::Gather" in text and ".py" not in text
    _, text = invoke("export", f"{module}:doubled", "-i", "2x3", "--show")
    assert f"{module}.py:" in text


def test_show(folder: Path) -> None:
    invoke("export", f"models_of_{folder.name}:net", "-i", "image=3x4", "-o", "net.onnx", "--output-name", "y")
    code, text = invoke("show", "net.onnx")
    assert code == 0
    graph, _, summary = text.partition("\n\n")
    assert graph.splitlines()[1] == "graph(%image : Float(3, 4),"
    assert re.sub(r"[\d.]+ MB\noperators", "SIZE MB\noperators", summary) == (
        "net.onnx: opset onnx 18, IR version 8, made by onnx-parity 0.1.0\n"
        "inputs     %image : Float(3, 4)\n"
        "outputs    %y : Float(3, 2)\n"
        "weights    10 numbers, 0.0 MB\n"
        "file       SIZE MB\n"
        "operators  2\n"
        "      1  Gemm\n"
        "      1  Relu\n"
    )
    assert invoke("show", "net.onnx", "--no-graph") == (0, summary)


def test_programs_are_described_as_json(folder: Path) -> None:
    module = f"models_of_{folder.name}"
    told = json.loads(invoke("export", f"{module}:Looks", "-i", "x=3", "-o", "m.onnx", "--show", "--json")[1])
    assert (told["path"], told["opset"], told["verified"]) == ("m.onnx", 18, False)
    assert told["warnings"][0].startswith("the program turned a tensor into a Python value at ")
    for wrongly in (("-o", "no/folder/net.onnx"), ("--opset", "99"), ("-d", "none:0=n")):
        assert invoke("export", f"{module}:Net", "-i", "2x4", *wrongly)[0] == 2
    code, text = invoke("export", f"{module}:Unknown", "-i", "3", "--json")
    assert (code, json.loads(text)["error"]) == (1, "UnsupportedOperatorsError")
    assert "aten::_standard_gamma_grad" in json.loads(text)["reason"]
    summary = json.loads(invoke("show", "m.onnx", "--json")[1])
    assert (summary["opsets"], summary["inputs"], summary["operators"]) == ({"onnx": 18}, ["%x : Float(3)"], {"Add": 1})


def test_weights_ints_and_external_data(folder: Path) -> None:
    torch.save({"weight": torch.ones(50, 4) * 3}, "state.pt")
    where = f"models_of_{folder.name}:embedding"
    code, text = invoke("export", where, "-i", "ids=2x5:int64<50", "--weights", "state.pt", "--external-data")
    assert code == 0, text
    loaded = onnx.load("model.onnx")
    assert onnx.numpy_helper.to_array(loaded.graph.initializer[0]).min() == 3
    code, text = invoke("show", "model.onnx", "--no-graph")
    assert "0.0 MB" in text


def test_fallback_strictness_and_warnings(folder: Path) -> None:
    looks, unknown = f"models_of_{folder.name}:Looks", f"models_of_{folder.name}:Unknown"
    code, text = invoke("export", looks, "-i", "2x2")
    assert code == 0 and "warning: the program turned a tensor into a Python value" in text
    code, text = invoke("export", looks, "-i", "2x2", "--strict")
    assert code == 1 and text.startswith("FrozenValueError: ")
    pads = ("export", f"models_of_{folder.name}:Pads", "-i", "x=8x2", "-d", "x:0=rows", "--verify")
    code, text = invoke(*pads)
    assert code == 1 and text.startswith("warning: the program branches on a dynamic size")
    assert "VerificationError" in text and "state it if it always does, assume=['(-rows) % 4 == 0']" in text
    assert json.loads(invoke(*pads, "--json")[1])["warnings"][0].startswith("the program branches on a dynamic size")
    code, text = invoke(*pads, "--assume", "rows % 4 == 0", "--strict")
    assert code == 0 and "warning" not in text
    code, text = invoke("export", unknown, "-i", "2x2")
    assert code == 1 and text.startswith("UnsupportedOperatorsError: 1 operator cannot be exported to opset 18:")
    code, text = invoke("export", unknown, "-i", "2x2", "--fallback", "--show")
    assert code == 0 and "org.pytorch.aten::ATen[operator=_standard_gamma_grad" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("nowhere:Net",),
            "nowhere cannot be imported: No module named 'nowhere'. Install it, or run this in the folder that "
            "contains it.",
        ),
        (
            ("torch.nn",),
            "torch.nn does not name a model. Write package.module:name, for example torchvision.models:resnet18, "
            "or file.py:name.",
        ),
        (
            ("torch.nn:Nothing",),
            "torch.nn:Nothing cannot be exported: torch.nn has no Nothing. Check the spelling of the name.",
        ),
        (
            ("torch.nn:ReLU", "-i", "3,4"),
            "--input 3,4 cannot be read. "
            "Write the sizes, 1x3x224x224, and where needed a name, x=1x3x224x224, a dtype, "
            "ids=1x16:int64, and a bound for integers, ids=1x16:int64<30522. Write scalar for a tensor without axes.",
        ),
        (
            ("torch.nn:ReLU", "-i", "3x4:float99"),
            "--input: torch has no dtype float99. Write for example float32, int64 or bool.",
        ),
        (
            ("torch.nn:ReLU", "-i", "3x4", "-d", "x"),
            "--dynamic x cannot be read. Write the input, the axis and a name, x:0=batch, or only x:0.",
        ),
        (
            ("torch.nn:ReLU",),
            "torch.nn:ReLU takes 'input', and no --input was given. "
            "Write one for each with its sizes, for example --input input=1x3x224x224.",
        ),
        (
            ("torch.nn:ReLU", "-i", "3x4", "-i", "2"),
            "torch.nn:ReLU takes 'input', and 2 --input were given. Leave out the others.",
        ),
        (
            ("torch.nn.functional:glu", "-i", "3x4", "-i", "3x4", "-i", "3x4"),
            "torch.nn.functional:glu takes 'input', 'dim', and 3 --input were given. Leave out the others.",
        ),
        (("none.py:net", "-i", "3x4"), "none.py cannot be imported: there is no such file."),
        (
            ("torch.nn:ReLU", "-i", "3x4", "--weights", "none.pt"),
            "--weights none.pt cannot be loaded: there is no such file.",
        ),
    ],
)
def test_wrong_use(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert invoke("export", *arguments) == (2, f"{message}\n")
    assert not Path("model.onnx").exists()


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("\nraise RuntimeError('no operator\\nnms')\n", "RuntimeError: no operator\n  at {place}:2"),
        ("import sys\nsys.exit()\n", "SystemExit\n  at {place}:2"),
    ],
)
def test_modules_that_cannot_be_imported_are_reported_with_the_reason(folder: Path, source: str, told: str) -> None:
    name = f"broken_of_{folder.name}"
    place = folder / f"{name}.py"
    place.write_text(source)
    (folder / f"imports_{folder.name}.py").write_text(f"import {name}\n")
    for module in (name, f"imports_{folder.name}"):
        assert invoke("export", f"{module}:net") == (2, f"{module} cannot be imported: {told.format(place=place)}\n")
    place.write_text("net = (\n")
    assert invoke("export", f"{name}:net") == (
        2,
        f"{name} cannot be imported: SyntaxError: '(' was never closed ({name}.py, line 1)\n",
    )


def test_a_program_does_not_end_the_command(folder: Path) -> None:
    where = f"models_of_{folder.name}"
    code, text = invoke("export", f"{where}:Exits", "-i", "2x2")
    assert code == 1 and text.startswith("CaptureError: the program ended the process at ")
    for name, what in (("exits_at_once", "SystemExit: 0"), ("fails_at_once", "ValueError: no weights")):
        code, text = invoke("export", f"{where}:{name}", "-i", "2x2")
        assert code == 2 and text.startswith(f"{where}:{name} cannot be created: {what}\n  at ")
    code, text = invoke("export", f"{where}:deep", "-i", "2x2")
    assert code == 1 and text.startswith(
        "CaptureError: the program, its arguments or its modules are nested too deeply"
    )
    code, text = invoke("export", f"{where}:doubled", "-i", "2x2", "-o", "no\udcff/net.onnx")
    assert code == 2 and "no\\udcff is not an existing folder" in text
    code, text = invoke("export", f"{where}:doubled", "-i", "2x2", "-o", "a\udcff.onnx", "--json")
    assert code == 0 and Path("a\udcff.onnx").exists()
    assert not Path("model.onnx").exists()


def test_what_is_no_model(folder: Path) -> None:
    code, text = invoke("export", f"models_of_{folder.name}:nothing")
    ending = "creates an object of type int, which cannot be exported. Name a torch.nn.Module or a function.\n"
    assert (code, text.endswith(ending)) == (2, True)
    assert invoke("show", "none.onnx") == (2, "none.onnx cannot be shown: there is no such file.\n")
    for content in ("no model", ""):
        Path("text.onnx").write_text(content)
        assert invoke("show", "text.onnx") == (2, "text.onnx cannot be shown: it is not an ONNX file.\n")
    assert invoke("show", ".") == (2, ". cannot be shown: it is a folder.\n")
    where = f"models_of_{folder.name}"
    assert invoke("export", f"{where}:number") == (
        2,
        f"{where}:number is an object of type int, which cannot be exported. Name a torch.nn.Module or a function.\n",
    )
    assert invoke("export", f"{where}:Sized", "-i", "2x3") == (
        2,
        f"{where}:Sized cannot be called without size. Name a function without parameters that creates the model.\n",
    )
    Path("text.pt").write_text("no weights")
    code, text = invoke("export", f"{where}:Net", "-i", "2x4", "--weights", "text.pt")
    assert (
        code,
        text.startswith("--weights text.pt cannot be loaded: it is not a state dict that torch.save wrote ("),
    ) == (2, True)
    torch.save({}, "none.pt")
    code, text = invoke("export", f"{where}:Net", "-i", "2x4", "--weights", "none.pt")
    assert (code, text.startswith("--weights none.pt do not fit the model: ")) == (2, True)


def test_a_function_of_tensors_is_exported_itself(folder: Path) -> None:
    code, text = invoke("export", f"models_of_{folder.name}:doubled", "-i", "2x3", "--verify")
    assert code == 0 and "verified in onnxruntime" in text


def test_a_model_in_a_file_is_named_by_the_path_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"models_of_{folder.name}.py"
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    code, text = invoke("export", f"../{module}:Net", "-i", "x=2x4", "--verify")
    assert code == 0 and "verified in onnxruntime" in text
    Path("part").mkdir()
    Path("part/small.py").write_text("from . import net")
    code, text = invoke("export", "part/small.py:net", "-i", "x=2x4")
    assert code == 2 and "It is in a package: write package.module:name" in text
    Path("by_keyword.py").write_text("def program(x, *, y):\n    return x + y")
    code, text = invoke("export", "by_keyword.py:program", "-i", "2x4")
    assert code == 2 and "cannot be called without the keyword y, and inputs are given by position." in text
    Path("json.py").write_text(MODULE)
    code, text = invoke("export", "json.py:Net", "-i", "x=2x4")
    assert code == 2 and text.startswith("json.py cannot be imported: Python has another module of the name json, ")


@pytest.mark.parametrize("command", ["export", "show"])
def test_help_teaches_by_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0 and f"parity {command} " in text and "Examples:" in text
