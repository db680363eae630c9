"""Weights that programs compute from integers are integers of the model, as the runtime's own kernels take them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnx_parity
from op_cases.quantization import GroupedWeights, StoredWeights
from tests.exporter.subjects import assert_agrees
from tests.thinned import one_in

X = torch.linspace(-2, 2, 3 * 64).reshape(3, 64)


class Scaled(torch.nn.Module):
    """A layer whose weight is made of integers, of what is subtracted and of a scale for each group of features."""

    integers: torch.Tensor
    scale: torch.Tensor

    def __init__(self, zero_point: Any = 0, dtype: torch.dtype = torch.float32, group: int = 32) -> None:
        super().__init__()
        self.register_buffer(
            "integers", torch.arange(64 * 32).mul(7).remainder(16).sub(8).to(torch.int8).reshape(64, 32)
        )
        self.register_buffer("scale", torch.linspace(0.01, 0.1, 64 // group * 32).to(dtype).reshape(-1, 1, 32))
        self._zero_point, self._group = zero_point, group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        integers = self.integers.reshape(-1, self._group, 32).to(self.scale.dtype)
        return torch.matmul(x, ((integers - self._zero_point) * self.scale).reshape(64, 32))


def exported(program: torch.nn.Module, x: torch.Tensor = X, opset: int = 21, **options: Any) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(program.eval(), (x,), opset_version=opset, input_names=["x"], **options)


def operators(program: onnx_parity.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("program", [GroupedWeights(), StoredWeights()], ids=["four bits", "eight, four and two"])
def test_onnxruntime_multiplies_with_the_integers(program: torch.nn.Module, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    model = exported(program)
    model.save(str(tmp_path / "model.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    multiplied = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert "DequantizeLinear" not in multiplied
    assert multiplied.count("MatMulNBits") == operators(model).count("DequantizeLinear")
    # It rounds the rows to 8 bits, unless it is told otherwise.
    expected = program(X)
    results = session.run(None, {"x": X.numpy()})
    for result, wanted in zip(results, [expected] if len(results) == 1 else expected, strict=True):
        error = np.square(result - wanted.detach().numpy()).mean() / wanted.square().mean().item()
        assert error < 10**-3.5


def test_features_that_are_in_no_order_are_put_into_one() -> None:
    program = GroupedWeights(in_order=False)
    model = exported(program, verify=True)
    assert operators(model) == ["Gather", "DequantizeLinear", "MatMul", "Add"]


@pytest.mark.parametrize(("opset", "bits"), [(21, 4), (25, 4)])
def test_integers_have_the_fewest_bits_that_the_opset_has(opset: int, bits: int) -> None:
    model = exported(Scaled(), opset=opset)
    assert_agrees(model, Scaled(), X)
    weights = [each.const_value for each in model.model.graph.initializers.values()]
    sizes = {len(each.tobytes()) for each in weights if each is not None}
    assert 64 * 32 * bits // 8 in sizes


class FewBits(torch.nn.Module):
    """A layer whose integers use all of their bits, with or without zero points."""

    def __init__(self, bits: int, dtype: torch.dtype, columns: int, *, is_signed: bool, has_starts: bool) -> None:
        super().__init__()
        low = -(1 << bits - 1) if is_signed else 0
        self.starts = torch.arange(2 * columns).remainder(1 << bits).add(low).reshape(2, 1, columns) * has_starts
        self.integers = torch.arange(64 * columns).mul(5).remainder(1 << bits).add(low).reshape(2, 32, columns)
        if is_signed:
            self.integers = self.integers.to(torch.int8)
        else:
            self.integers = self.integers.to(torch.uint8)
        self.scales = torch.linspace(0.01, 0.1, 2 * columns).to(dtype).reshape(2, 1, columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        integers = self.integers.to(x.dtype) - self.starts.to(x.dtype)
        return x @ (integers * self.scales).flatten(0, 1)


@pytest.mark.parametrize("target", one_in(2, [None, "onnxruntime"]))
@pytest.mark.parametrize("dtype", one_in(2, [torch.float32, torch.float16]), ids=str)
@pytest.mark.parametrize("columns", [36, pytest.param(33, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("bits", "opset"), [(2, 25), (4, 21), (4, 23), (8, 21)])
def test_all_kinds_of_integers(bits: int, opset: int, columns: int, dtype: torch.dtype, target: str | None) -> None:
    x = torch.linspace(-2, 2, 3 * 64).reshape(1, 3, 64).to(dtype)
    for is_signed, has_starts in [(False, False), (False, True), (True, False), (True, True)]:
        program = FewBits(bits, dtype, columns, is_signed=is_signed, has_starts=has_starts)
        model = exported(program, x, opset, target=target, verify=True, dynamic_axes={"x": {0: "batch", 1: "rows"}})
        assert operators(model) == (["DequantizeLinear", "MatMul"] if target is None else ["MatMulNBits"])
        assert model(x[:, :0]).shape == (1, 0, columns)
    if target is not None:
        # The file lets onnxruntime round rows to 8 bits, as it does with a DequantizeLinear. A call does not.
        assert next(iter(model.model.graph)).attributes["accuracy_level"].as_int() == 4


@pytest.mark.parametrize(
    ("program", "x"),
    [
        (Scaled(zero_point=0.5), X),
        (Scaled(group=8), X),
        (Scaled(dtype=torch.bfloat16), X.bfloat16()),
    ],
    ids=["zero points that are no integers", "blocks that no kernel takes", "weights that are rounded"],
)
def test_other_weights_are_computed_as_before(program: torch.nn.Module, x: torch.Tensor) -> None:
    assert "DequantizeLinear" not in operators(exported(program, x, verify=True))


@pytest.mark.parametrize("options", [{"export_params": False}, {"do_constant_folding": False}], ids=str)
def test_weights_that_may_not_be_read_stay_what_they_are(options: dict[str, Any]) -> None:
    assert "DequantizeLinear" not in operators(exported(Scaled(), **options))


def test_integers_that_are_built_in_cannot_be_replaced() -> None:
    program = Scaled()
    model = exported(program)
    other = {**program.state_dict(), "integers": program.integers + 1}
    with pytest.raises(onnx_parity.ArgumentError, match="the weight 'integers' cannot be replaced"):
        model.apply_weights(other)
    model.apply_weights(program.state_dict())


class FourBitFloats(torch.nn.Module):
    """Two numbers of four bits in each byte, one of them for the point, whose bits are put together as float32's."""

    packed: torch.Tensor
    scale: torch.Tensor

    def __init__(self, overall: float | None = None, *, has_exponents: bool = False) -> None:
        super().__init__()
        self.register_buffer("packed", torch.arange(32 * 32).mul(37).remainder(256).to(torch.uint8).reshape(32, 32))
        self.register_buffer("scale", torch.linspace(0.01, 0.1, 32 * 4).reshape(32, 4, 1))
        if has_exponents:
            self.scale = torch.arange(32 * 4).remainder(5).add(122).to(torch.uint8).reshape(32, 4, 1)
        self._overall = None if overall is None else torch.tensor(overall)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bits = torch.stack([self.packed & 15, self.packed >> 4], -1).flatten(1).to(torch.int32)
        exponent, mantissa = (bits >> 1 & 3) + 126 << 23, (bits & 1) << 22
        numbers = torch.where(bits & 7 < 2, (bits & 7) / 2, (exponent | mantissa).view(torch.float32))
        is_float = self.scale.dtype is torch.float32
        scale = self.scale if is_float else self.scale.view(torch.float8_e8m0fnu).float()
        weight = torch.where(bits > 7, -numbers, numbers).reshape(32, 4, 16) * scale
        weight = weight if self._overall is None else weight * self._overall
        return torch.nn.functional.linear(x, weight.flatten(1))


@pytest.mark.parametrize(
    "program",
    [FourBitFloats(), FourBitFloats(overall=0.3), FourBitFloats(has_exponents=True)],
    ids=["a scale for each block", "and one for all, as of NVFP4", "exponents, as of MXFP4"],
)
def test_numbers_of_four_bits_with_a_point_are_integers_of_half_the_scale(program: FourBitFloats) -> None:
    model = exported(program, verify=True)
    assert operators(model) == ["DequantizeLinear", "MatMul"]
    assert_agrees(model, program, X)
    before = exported(program, opset=18, verify=True)
    assert "BitCast" not in operators(before)
    assert_agrees(before, program, X)


class EightBitFloats(torch.nn.Module):
    """As of MXFP8: floats of 8 bits, and for each 32 of them an exponent."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.linspace(-3, 3, 32 * 64).reshape(32, 2, 32).to(torch.float8_e4m3fn))
        exponents = torch.arange(64).remainder(7).add(120).to(torch.uint8).reshape(32, 2, 1)
        self.register_buffer("scale", exponents.view(torch.float8_e8m0fnu))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers, scale = self.get_buffer("numbers").float(), self.get_buffer("scale").float()
        return torch.nn.functional.linear(x, (numbers * scale).flatten(1))


@pytest.mark.parametrize("opset", [13, 21, 24])
def test_scales_that_are_exponents_are_computed_at_the_export(opset: int) -> None:
    program = EightBitFloats()
    assert_agrees(exported(program, opset=opset, verify=True), program, X)


class OfBits(torch.nn.Module):
    """A weight of which the bits are read, as no operator of ONNX does before opset 26."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 64, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.view(torch.int64)


def test_what_onnx_cannot_express_of_weights_is_computed_at_the_export() -> None:
    program = OfBits()
    model = exported(program, verify=True)
    assert operators(model) == ["Mul"]
    with pytest.raises(onnx_parity.ArgumentError, match="the weight 'weight' cannot be replaced"):
        model.apply_weights({"weight": torch.zeros(64, dtype=torch.float64)})
    with pytest.raises(onnx_parity.UnsupportedOperatorsError, match="need ONNX's BitCast"):
        exported(program, export_params=False)


def test_the_page_on_quantized_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(onnx_parity.__file__).parents[1] / "docs" / "quantized_models.md"
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    programs = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    missing = [name for name in ("torchao", "safetensors") if importlib.util.find_spec(name) is None]
    run = [each for each in programs if not any(f"from {name}" in each for name in missing)]
    for program in run:
        exec(program, names)
    assert len(programs) == 5 and len(run) >= 3 and "result" in names
