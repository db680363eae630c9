"""The modules that a process's first export imports, and its effects on the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Run in a fresh Python: exports come before anything else has imported dynamo.
_PROGRAM = """
import logging
import sys
import torch
import onnx_parity

logging.getLogger("torch.__trace").addHandler(logging.NullHandler())  # As pytest does, while a test runs.
x = torch.ones(2, 3)
class Script(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = 0
        while bool(x.abs().sum() > 1):
            x = torch.tanh(x) * 0.5
            steps += 1
        return x + steps

network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.GELU())
for module in (torch.nn.ELU(), network, torch.nn.LSTM(3, 4), torch.jit.script(Script())):
    onnx_parity.export(module, (x,))
images = torch.ones(2, 3, 9, 9)
stem = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2, 1))
head = torch.nn.Sequential(torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.LayerNorm(3))
onnx_parity.export(torch.nn.Sequential(stem, head).eval(), (images,))
encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
onnx_parity.export(encoder, (torch.ones(2, 3, 4),))
onnx_parity.export(lambda x: x.view(3, 2).softmax(0)[1:, 0], (x,))
onnx_parity.export(lambda x: x.transpose(1, 2).permute(2, 0, 1, 3).contiguous(), (images,))
for layers in (encoder, torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()):
    given = images if layers is not encoder else torch.ones(2, 3, 4)
    onnx_parity.export(layers, (given,), input_names=["x"], dynamic_axes={"x": [0, given.ndim - 2]})
not_needed = {"sympy", "torch._dynamo", "torch.distributed.tensor"}
assert not not_needed & {*sys.modules}, "an export imported what it does not need"
onnx_parity.export(lambda x: torch.nn.functional.softplus(torch.sinc(x) ** 2).mean(), (x,))
values = lambda x: (x[x > 0.5], x.nonzero().shape[0] * x.reshape(-1), x[: int(x.sum())])
for program in (network, torch.jit.script(Script()), values):
    onnx_parity.export(program, (x,), input_names=["x"], dynamic_axes={"x": [0]})
assert "torch._dynamo" not in sys.modules, "an export imported dynamo"

from torch.fx.experimental.validator import translation_validation_enabled
assert translation_validation_enabled.__module__ == "torch.fx.experimental.validator"
assert torch.equal(torch.compile(lambda x: x + 1, backend="eager")(x), x + 1)
assert torch.equal(torch.compile(torch._refs.abs, backend="eager")(x), x)
assert torch._dynamo is sys.modules["torch._dynamo"]
assert torch._dynamo.config is sys.modules["torch._dynamo.config"]
from torch.utils._config_module import get_assignments_with_compile_ignored_comments as read_settings
for config in (torch._dynamo.config, torch._functorch.config):
    assert {*config._compile_ignored_keys} == read_settings(config) != set()
with torch._dynamo.config.patch(suppress_errors=True):
    from torch._dynamo import config
    assert config.suppress_errors
assert len(torch.export.export(torch.nn.ELU(), (x,)).graph.nodes) == 3
onnx_parity.export(torch.nn.ELU(), (x,))

def compile_nothing(graph, inputs):
    raise AssertionError("a compiled part is recorded as it was written")

stance = torch._dynamo.eval_frame._stance
for whole in (False, True):
    compiled = torch.compile(network, backend=compile_nothing, fullgraph=whole)
    assert onnx_parity.capture_program(compiled, (x,)).operators == onnx_parity.capture_program(network, (x,)).operators
assert torch._dynamo.eval_frame._stance is stance
print("as before")
"""


@pytest.mark.slow
def test_an_export_does_not_import_dynamo_and_does_not_stand_in_its_way(tmp_path: Path) -> None:
    program = tmp_path / "program.py"  # torch.jit.script reads sources.
    program.write_text(_PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "as before"), done.stderr[-2000:]


#: Programs that import dynamo themselves, in the process's first export.
_COMPILES = {
    "a function": """
import torch, onnx_parity

def compile_nothing(graph, inputs):
    raise AssertionError("a compiled part is recorded as it was written")

class Compiles(torch.nn.Module):
    def forward(self, x):
        return torch.compile(lambda x: torch.sin(x) + 1, backend=compile_nothing)(x)

x = torch.rand(2, 3)
assert torch.allclose(onnx_parity.export(Compiles(), (x,))(x), torch.sin(x) + 1)
""",
    "attention": """
import torch, onnx_parity
from torch.nn.attention.flex_attention import flex_attention

class Attends(torch.nn.Module):
    def forward(self, x):
        return flex_attention(x, x, x, score_mod=lambda score, batch, head, row, column: score + (row - column) * 0.1)

x = torch.rand(1, 2, 16, 16)
assert torch.allclose(onnx_parity.export(Attends(), (x,), opset_version=18)(x), Attends()(x), atol=1e-5)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", _COMPILES.values(), ids=_COMPILES)
def test_programs_that_compile_parts_of_themselves(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


_FORMATS = """
import onnx_parity, torch
import sys
program = onnx_parity.export(torch.relu, (torch.ones(2),))
assert "google.protobuf.text_format" not in sys.modules
import google.protobuf
import onnx
for ending in ("textproto", "json", "onnx"):
    onnx.save(program.model_proto, f"model.{ending}")
    assert onnx.load(f"model.{ending}") == program.model_proto
from google.protobuf import json_format, text_format
for module in (json_format, text_format):
    assert module is sys.modules[module.__name__]
try:
    google.protobuf.no_such_module
except AttributeError as error:
    print(error)
"""


@pytest.mark.parametrize("implementation", ["upb", pytest.param("python", marks=pytest.mark.slow)])
def test_formats_of_protobuf_are_imported_when_they_are_used(implementation: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    command = [sys.executable, "-c", _FORMATS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "module 'google.protobuf' has no attribute 'no_such_module'\n"
