"""Right models that a verification must not refuse: where numbers cancel, zeros, NaN, and empty inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnx_parity
from onnx_parity.exporter.arrays import to_array
from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode
from onnx_parity.exporter.verification.float64 import Inexact, in_dtype
from onnx_parity.exporter.verification.oracle import Expected
from onnx_parity.exporter.verification.reference import MOVES
from onnx_parity.exporter.verification.verify import is_rounding
from tests.thinned import one_in

SEEDS = range(10)


@pytest.mark.parametrize("fill", [0.1, 1 / 3, 3.3])
@pytest.mark.parametrize("axes", [None, {"x": {0: "batch"}}])
def test_norms_of_constant_images(fill: float, axes: Any) -> None:
    for norm in (nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.LayerNorm([4, 5, 6])):
        x = torch.full((2, 4, 5, 6), fill)
        onnx_parity.export(norm.eval(), (x,), input_names=["x"], dynamic_axes=axes, verify=True)


@pytest.mark.parametrize("seed", one_in(3, SEEDS))
def test_divergence_of_equal_distributions(seed: int) -> None:
    torch.manual_seed(seed)
    logits = torch.rand(4, 6)
    rows = logits.softmax(-1)
    for reduction in ("sum", "none", "batchmean"):
        onnx_parity.export(nn.KLDivLoss(reduction=reduction), (rows.log(), rows), verify=True)
        onnx_parity.export(
            lambda x, y, reduction: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction=reduction),
            (logits, logits, reduction),
            verify=True,
        )


class Passing(TorchDispatchMode):
    """Calls each operator as it is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_kernels_conjugate_in_another_dtype() -> None:
    """The kernel multiplies what is left by its conjugate, which torch takes for the same within a dispatch mode."""
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 3, dtype=torch.complex128).unbind()
    residuals = torch.linalg.lstsq(a, b, driver="gels").residuals
    with in_dtype(torch.float64):
        torch.testing.assert_close(torch.linalg.lstsq(a, b, driver="gels").residuals, residuals)
    with Passing():  # type: ignore[no-untyped-call]
        assert not torch.linalg.lstsq(a, b, driver="gels").residuals.allclose(residuals)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("seed", SEEDS)
def test_interpolation_to_few_pixels(seed: int, mode: str) -> None:
    torch.manual_seed(seed)
    for height, size in ((13, (1, 1)), (11, (2, 2))):
        x = torch.randn(1, 2, height, height)
        onnx_parity.export(lambda x, size: F.interpolate(x, size, mode=mode), (x, size), verify=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", SEEDS)
def test_large_numbers_times_a_sigmoid_that_is_almost_0(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    onnx_parity.export(lambda x: F.silu(200 * x), (torch.randn(30, 40, dtype=dtype),), verify=True)


@pytest.mark.parametrize("least", [-20.0, -14.0, -8.0])
@pytest.mark.parametrize("f", [torch.sigmoid, F.silu])
def test_probabilities_that_are_all_small(f: Any, least: float) -> None:
    """onnxruntime's sigmoid is wrong by what 1 is rounded by, however small it is."""
    torch.manual_seed(0)
    onnx_parity.export(lambda x: f(x + least), (torch.randn(50) / 10,), verify=True)


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("f", [F.elu, F.selu, F.celu, lambda x: F.elu(x) @ torch.ones(50, 3)])
def test_exponentials_of_small_numbers_less_1(f: Any, scale: float) -> None:
    torch.manual_seed(0)
    onnx_parity.export(lambda x: f(x * scale), (torch.randn(50),), verify=True)


@pytest.mark.parametrize("f", [torch.expm1, torch.tanh, F.softplus])
def test_small_numbers_of_operators_that_have_all_digits(f: Any) -> None:
    """What follows from a runtime's sigmoid excuses nothing else."""
    wrong = {f"aten::{f.__name__}": lambda g, x, *_: g.op("Sub", g.op("Exp", x), 1.0)}
    with pytest.raises(onnx_parity.VerificationError, match="the outputs of the model differ"):
        onnx_parity.export(
            lambda x: f(x * 1e-6 - (20.0 if f is F.softplus else 0.0)),
            (torch.randn(50),),
            verify=True,
            custom_translation_table=wrong,
        )


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (F.tanhshrink, lambda: torch.randn(50) * 1e-3),
        (F.tanhshrink, lambda: torch.randn(50) * 1e-6),
        (lambda x: 1 - torch.tanh(x), lambda: torch.linspace(5, 7, 50) + torch.rand(50) / 10),
        (lambda x: x - torch.sin(x), lambda: torch.rand(50) * 1e-3),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_cancels_by_operators_of_the_program(f: Any, at: Any, seed: int) -> None:
    """No digit is left, and the signs of what is left are those of roundings."""
    torch.manual_seed(seed)
    onnx_parity.export(f, (at(),), verify=True)


def test_the_program_runs_with_wrong_operators_once_for_all_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Counting(Inexact, frozen=True):
        def spoil(self, func: Any, arguments: Any, result: Any) -> None:
            if func is torch.ops.aten.tanh.default:
                asked.append(self.seed)
            super().spoil(func, arguments, result)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        lost = 1 - torch.tanh(x)
        return [lost * factor for factor in range(1, 7)]

    monkeypatch.setattr("onnx_parity.exporter.verification.reference.Inexact", Counting)
    onnx_parity.export(program, (torch.linspace(5, 7, 50),), verify=True)
    assert asked == [*range(MOVES)]


def test_whether_an_element_is_a_number_may_depend_on_rounding() -> None:
    torch.manual_seed(0)
    onnx_parity.export(
        lambda x: torch.acos(F.cosine_similarity(x, x * 1.0001 + 1e-4, -1)), (torch.rand(20, 8),), verify=True
    )


@pytest.mark.parametrize("f", [torch.expm1, torch.tanh])
def test_what_cancels_in_the_model_alone_is_wrong(f: Any) -> None:
    wrong = {f"aten::{f.__name__}": lambda g, x: g.op("Sub", g.op("Exp", x), 1.0)}
    with pytest.raises(onnx_parity.VerificationError, match="the outputs of the model differ"):
        onnx_parity.export(
            lambda x: f(x) - x * 0.5, (torch.randn(50) * 1e-6,), verify=True, custom_translation_table=wrong
        )


_OF_SUMS = [
    lambda x: torch.zeros(2, dtype=x.dtype).index_add(0, torch.arange(len(x)) % 2, x),
    lambda x: torch.zeros(2, dtype=x.dtype).index_put((torch.arange(len(x)) % 2,), x, accumulate=True),
    lambda x: torch.histc(x, 2),
]


@pytest.mark.parametrize("f", _OF_SUMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_that_are_rounded_once_for_each_element(f: Any, dtype: torch.dtype) -> None:
    """torch adds up a bfloat16 to 256, and the model to 1,000. Not everything is right therefore."""
    torch.manual_seed(0)
    x = torch.rand(4000).to(dtype)
    onnx_parity.export(lambda x: -f(x), (x,), verify=True)
    for factor in (-3.0, 1.0):
        wrong = {"aten::neg": lambda g, x, factor=factor: g.op("Mul", x, g.const(factor, x.dtype))}
        with pytest.raises(onnx_parity.VerificationError, match="the outputs of the model differ"):
            onnx_parity.export(lambda x: -f(x), (x,), verify=True, custom_translation_table=wrong)


_OF_CANCELLING = [
    lambda x: F.binary_cross_entropy_with_logits(x, torch.zeros_like(x), reduction="none"),
    lambda x: F.kl_div(x.log_softmax(0), (x * (1 + 1e-7)).softmax(0), reduction="none"),
    lambda x: torch.logit(torch.sigmoid(x / 2)),
    lambda x: 1 - torch.cos(x * 1e-6),
    lambda x: torch.log(torch.cosh(x * 1e-7)),
    lambda x: torch.lgamma(1 + x.abs() * 1e-6),
    lambda x: (x * 1.3 - (x * 1.3).mean()).sum(),
]


@pytest.mark.parametrize("f", _OF_CANCELLING)
def test_numbers_in_float64_that_cancel(f: Any) -> None:
    """Nothing wider says what the program should give."""
    x = torch.linspace(-40, 40, 41, dtype=torch.float64)
    onnx_parity.export(f, (x,), verify=True)


@pytest.mark.parametrize(
    ("f", "operator", "wrong"),
    [
        (lambda x: torch.sin(x) * 3, "aten::sin", lambda g, x: g.op("Add", g.op("Sin", x), g.const(1e-10, x.dtype))),
        (
            lambda x: torch.floor(x * 10) - 10 * x,
            "aten::floor",
            lambda g, x: g.op("Floor", g.op("Add", x, g.const(0.5, x.dtype))),
        ),
        (lambda x: 1 - torch.cos(x), "aten::cos", lambda g, x: g.op("Cos", g.op("Mul", x, g.const(1 + 1e-9, x.dtype)))),
    ],
)
def test_numbers_in_float64_that_are_wrong_by_more_than_cancels(f: Any, operator: str, wrong: Any) -> None:
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    with pytest.raises(onnx_parity.VerificationError, match="the outputs of the model differ"):
        onnx_parity.export(f, (x,), verify=True, custom_translation_table={operator: wrong})


class _Masked(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return self.attention(x, x, x, attn_mask=mask)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_with_a_mask_of_large_numbers(seed: int, causal: bool) -> None:
    torch.manual_seed(seed)
    steps = 5
    mask = torch.triu(torch.full((steps, steps), -1e9), 1) if causal else (torch.rand(steps, steps) > 0.5) * -1e9
    onnx_parity.export(_Masked(8).eval(), (torch.randn(2, steps, 8), mask), verify=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sign_of_zero_in_sums(seed: int) -> None:
    torch.manual_seed(seed)
    factor = torch.randint(-2, 3, (3, 3)).float().tril(-1) + 3 * torch.eye(3)
    onnx_parity.export(torch.cholesky_inverse, (factor,), verify=True)
    onnx_parity.export(torch.cholesky_inverse, (torch.diag(torch.rand(4) + 0.5),), verify=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "f",
    [
        F.softshrink, F.elu, F.selu, F.celu, F.leaky_relu, torch.log1p, torch.atan, torch.trunc, torch.tril, F.relu6,
        lambda x: x.mean(1), lambda x: x.cumsum(1), lambda x: F.layer_norm(x * 0, (4,)),
    ],
)  # fmt: skip
def test_the_sign_of_zero_where_onnx_has_none(f: Any, dtype: torch.dtype) -> None:
    x = torch.tensor([[-0.0, -0.0, -0.0, -0.0], [-0.3, 0.3, 0.0, -2.0]], dtype=dtype)
    for opset in (11, 18):
        onnx_parity.export(f, (x,), opset_version=opset, verify=True)


def test_the_sign_of_zero_where_it_is_defined() -> None:
    program = onnx_parity.export(lambda x: -x, (torch.zeros(3),))
    (negated,) = program.model.graph
    negated.op_type = "Identity"
    with pytest.raises(onnx_parity.VerificationError, match="the sign of zero differs"):
        program.verify()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_offsets_end_where_the_indices_do(mode: str, last: bool) -> None:
    bags = nn.EmbeddingBag(10, 4, mode=mode, include_last_offset=last)
    axes = {"input": {0: "indices"}, "offsets": {0: "bags"}}
    example = torch.arange(9), torch.tensor([0, 3, 5, 9] if last else [0, 3, 5])
    for dynamic in (axes, {"input": axes["input"]}, {"offsets": axes["offsets"]}):
        onnx_parity.export(bags, example, input_names=[*axes], dynamic_axes=dynamic, verify=True)


def test_a_mean_of_nothing_is_not_defined() -> None:
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    onnx_parity.export(
        lambda x: F.interpolate(x, (1, 1), mode="area"), (torch.rand(2, 3, 7, 7),), dynamic_axes=axes, verify=True
    )


def test_recurrent_layers_of_nothing_do_not_end_the_process() -> None:
    axes = {"input": {0: "steps", 1: "batch"}}
    onnx_parity.export(nn.LSTM(4, 3), (torch.rand(5, 2, 4),), input_names=["input"], dynamic_axes=axes, verify=True)


def test_programs_that_return_nan_beside_numbers() -> None:
    """The element that is named is the one that differs, whatever is NaN in both."""
    x = torch.tensor([[1.0, -1.0, 2.0], [4.0, 5.0, 6.0]])
    onnx_parity.export(torch.sqrt, (x,), verify=True)
    table = {"aten::sqrt": lambda g, x: g.op("Mul", g.op("Sqrt", x), g.const(torch.tensor([1.0, 1.0, 1.5])))}
    with pytest.raises(onnx_parity.VerificationError, match=r"output 0 at \(1, 2\): runtime 3.67\d*, torch 2.44\d*"):
        onnx_parity.export(torch.sqrt, (x,), verify=True, custom_translation_table=table)


def test_random_results_beside_nan() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(3), x.sqrt() * 1.0

    table = {"aten::sqrt": lambda g, x: g.op("Add", g.op("Sqrt", x), 0.5)}
    with pytest.raises(onnx_parity.VerificationError, match=r"output 1 at \(1,\): runtime 1.5, torch 1"):
        onnx_parity.export(program, (torch.tensor([-1.0, 1.0]),), verify=True, custom_translation_table=table)


def test_loops_that_stack_nothing() -> None:
    """onnx.reference, which runs models of nothing, loses the sizes of what a loop stacks."""
    axes = {"x": {0: "rows", 1: "batch"}}
    onnx_parity.export(
        lambda x: torch.stack([row * 2 for row in x]), (torch.rand(5, 2, 6),), dynamic_axes=axes, verify=True
    )


class Averaged(nn.Module):
    """Averages that are added up in another order than PyTorch's, of elements that are alike in half of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.layer(x))
        if y.max() > 1e4:
            y = y / y.max()
        result: torch.Tensor = self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))
        return result


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_averages_of_many_elements() -> None:
    for seed in range(30):
        torch.manual_seed(seed)
        onnx_parity.export(Averaged().eval(), (torch.rand(1, 3, 32, 32),), verify=True)


class Remembered:
    """What a cache keeps beside its tensors: their dtype."""

    def __init__(self, kept: torch.Tensor) -> None:
        self.kept, self.dtype = kept, kept.dtype


class Deep(nn.Module):
    """Layers that round to halves, and a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Remembered]:
        for layer in self.layers:
            x = torch.tanh(3 * layer(x)) + x
        return x - x.mean(-1, keepdim=True), Remembered(x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dtypes_among_the_results_of_halves(dtype: torch.dtype) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        onnx_parity.export(Deep().to(dtype).eval(), (torch.randn(2, 9, 32, dtype=dtype),), verify=True)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("axes", [None, {0: "batch", 1: "length"}])
def test_queries_that_see_no_key(nested: bool, axes: Any) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 6, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    padding = torch.tensor([[False, False, True], [False, False, False]])
    # For other values the second row is padding alone, for which torch's fused kernels give NaN.
    onnx_parity.export(
        lambda x, mask: encoder(x, src_key_padding_mask=mask),
        (torch.randn(2, 3, 8), padding),
        dynamic_shapes=axes and (axes, axes),
        verify=True,
    )


def test_numbers_where_torch_gives_nan_are_wrong() -> None:
    wrong = {torch.ops.aten.log.default: lambda g, x: g.op("Relu", x)}
    with pytest.raises(onnx_parity.VerificationError, match="NaN and infinities differ"):
        onnx_parity.export(torch.log, (torch.tensor([-2.0]),), custom_translation_table=wrong, verify=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_that_the_reference_cannot_widen_is_not_taken_to_be_rounded() -> None:
    """onnx.reference has no DequantizeLinear of opset 18, and refuses the model before it runs."""
    network = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(3, 2)), {nn.LSTM}, dtype=torch.qint8)
    program = onnx_parity.export(network.eval(), (torch.rand(5, 2, 3),), opset_version=18)
    feeds = program.feeds((torch.rand(5, 2, 3),), {})
    outputs = [to_array(each) for each in program.runtime_session().run(feeds)]
    tolerances = [np.full(each.shape, 1e-6) for each in outputs]
    expected = [
        Expected(each, centre=each.astype(np.float64), tolerance=near, ulp=near)
        for each, near in zip(outputs, tolerances, strict=True)
    ]
    assert not is_rounding(program.model, feeds, expected, [each + np.float32(2e-6) for each in outputs])
