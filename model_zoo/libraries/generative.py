"""Generative and probabilistic networks: flows, diffusion, quantized codes, differential equations, processes."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, given
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import BATCH, Calling, library, made, named

_ROWS: Any = {"sizes": {"batch": (1, 7)}}
_CODES: Any = {
    "inputs": {"x": floats(2, 10, 16)},
    "sizes": {"batch": (1, 3), "time": (7, 13)},
    "dynamic": {"x": {0: "batch", 1: "time"}},
}

vector_quantize_pytorch = library(
    "vector_quantize_pytorch",
    {
        "quantized": lambda: Built(made("vector_quantize_pytorch:VectorQuantize", dim=16, codebook_size=32), **_CODES),
        "by_cosine": lambda: Built(
            made("vector_quantize_pytorch:VectorQuantize", dim=16, codebook_size=32, use_cosine_sim=True, heads=2),
            **_CODES,
        ),
        "residual": lambda: Built(
            made("vector_quantize_pytorch:ResidualVQ", dim=16, num_quantizers=3, codebook_size=32), **_CODES
        ),
        "finite_scalars": lambda: Built(made("vector_quantize_pytorch:FSQ", levels=[5, 4, 3], dim=16), **_CODES),
        "without_lookup": lambda: Built(made("vector_quantize_pytorch:LFQ", codebook_size=64, dim=16), **_CODES),
        "random_projection": lambda: Built(
            made(
                "vector_quantize_pytorch:RandomProjectionQuantizer",
                dim=16,
                num_codebooks=2,
                codebook_dim=8,
                codebook_size=32,
            ),
            **_CODES,
        ),
    },
)

denoising_diffusion_pytorch = library(
    "denoising_diffusion_pytorch",
    {
        "unet": lambda: Built(
            made("denoising_diffusion_pytorch:Unet", dim=16, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8),
            {"x": floats(2, 3, 16, 24), "time": floats(2, low=0, high=99)},
            {"batch": (1, 3), "height": (12, 32)},
            dynamic={"x": {0: "batch", 2: "height"}, "time": {0: "batch"}},
        ),
        "unet_1d": lambda: Built(
            made("denoising_diffusion_pytorch:Unet1D", dim=16, dim_mults=(1, 2), channels=3, attn_dim_head=8),
            {"x": floats(2, 3, 32), "time": floats(2, low=0, high=99)},
            {"batch": (1, 3), "length": (28, 40)},
            dynamic={"x": {0: "batch", 2: "length"}, "time": {0: "batch"}},
        ),
    },
)


def _flow(*transforms: Any) -> Built:
    flow = made(
        "nflows.flows.base:Flow",
        made("nflows.transforms.base:CompositeTransform", list(transforms)),
        made("nflows.distributions.normal:StandardNormal", [4]),
    )
    return Built(Calling(lambda flow, x: flow.log_prob(x), flow), {"x": floats(3, 4)}, **_ROWS)


nflows = library(
    "nflows",
    {
        "autoregressive": lambda: _flow(
            made("nflows.transforms.autoregressive:MaskedAffineAutoregressiveTransform", 4, 8),
            made("nflows.transforms.permutations:ReversePermutation", 4),
        ),
        "splines": lambda: _flow(
            made(
                "nflows.transforms.autoregressive:MaskedPiecewiseRationalQuadraticAutoregressiveTransform",
                4,
                8,
                num_bins=4,
                tails="linear",
                tail_bound=3.0,
            )
        ),
        "lu": lambda: _flow(made("nflows.transforms.lu:LULinear", 4)),
    },
)

normflows = library(
    "normflows",
    {
        "real_nvp": lambda: Built(
            Calling(
                lambda flow, x: flow.log_prob(x),
                made(
                    "normflows:NormalizingFlow",
                    made("normflows.distributions:DiagGaussian", 4),
                    [
                        made("normflows.flows:AffineCouplingBlock", made("normflows.nets:MLP", [2, 8, 4])),
                        made("normflows.flows:Permute", 4, mode="swap"),
                    ],
                ),
            ),
            {"x": floats(3, 4)},
            **_ROWS,
        ),
        "splines": lambda: Built(
            Calling(
                lambda flow, x: flow.log_prob(x),
                made(
                    "normflows:NormalizingFlow",
                    made("normflows.distributions:DiagGaussian", 4),
                    [made("normflows.flows:AutoregressiveRationalQuadraticSpline", 4, 1, 8)],
                ),
            ),
            {"x": floats(3, 4)},
            **_ROWS,
        ),
    },
)


def _solved(method: str) -> Built:
    nn = "torch.nn:"
    slope = made(f"{nn}Sequential", made(f"{nn}Linear", 4, 8), made(f"{nn}Tanh"), made(f"{nn}Linear", 8, 4))
    return Built(
        Calling(
            lambda slope, x: named("torchdiffeq:odeint")(
                lambda t, y: slope(y), x, made("torch:linspace", 0, 1, 5), method=method
            ),
            slope,
        ),
        {"x": floats(3, 4)},
        **_ROWS,
    )


torchdiffeq = library(
    "torchdiffeq",
    {
        "rk4": lambda: _solved("rk4"),
        "midpoint": lambda: _solved("midpoint"),
        "adams": lambda: _solved("explicit_adams"),
    },
)


def _kernel(path: str, **keywords: Any) -> Built:
    kernel = made(f"gpytorch.kernels:{path}", **keywords)
    return Built(
        Calling(lambda kernel, x, y: kernel(x, y).to_dense(), kernel),
        {"x": floats(3, 4), "y": floats(5, 4)},
        {"batch": (1, 7), "others": (2, 4)},
        dynamic={**BATCH, "y": {0: "others"}},
    )


gpytorch = library(
    "gpytorch",
    {
        "rbf": lambda: _kernel("RBFKernel", ard_num_dims=4),
        "matern": lambda: _kernel("MaternKernel", nu=2.5),
        "periodic": lambda: _kernel("PeriodicKernel"),
        "scaled": lambda: _kernel("ScaleKernel", base_kernel=made("gpytorch.kernels:RQKernel")),
    },
)

pyro = library(
    "pyro",
    {
        "autoregressive": lambda: Built(
            made("pyro.nn:AutoRegressiveNN", 4, [8], param_dims=(1, 1)), {"x": floats(3, 4)}, **_ROWS
        ),
        "coupling": lambda: Built(
            Calling(
                lambda net, x: made("pyro.distributions.transforms:AffineAutoregressive", net)(x),
                made("pyro.nn:AutoRegressiveNN", 4, [8], param_dims=(1, 1)),
            ),
            {"x": floats(3, 4)},
            **_ROWS,
        ),
        "likelihood": lambda: Built(
            Calling(
                lambda net, x: made("pyro.distributions:Normal", net(x), 1.0).to_event(1).log_prob(x),
                made("torch.nn:Linear", 4, 4),
            ),
            {"x": floats(3, 4)},
            **_ROWS,
        ),
    },
)

_LABELS = given([0, 1, 2])

pytorch_metric_learning = library(
    "pytorch_metric_learning",
    {
        "arc_face": lambda: Built(
            made("pytorch_metric_learning.losses:ArcFaceLoss", 3, 8),
            {"x": floats(3, 8), "labels": _LABELS},
            {},
            dynamic={},
        ),
        "contrastive": lambda: Built(
            made("pytorch_metric_learning.losses:ContrastiveLoss"),
            {"x": floats(4, 8), "labels": given([0, 0, 1, 1])},
            {},
            dynamic={},
        ),
    },
)


def _metric(name: str) -> Built:
    return Built(
        Calling(named(f"torchmetrics.functional:{name}")),
        {"x": floats(3, 5, low=0.1, high=1), "y": floats(3, 5, low=0.1, high=1)},
        {"batch": (2, 7)},
        dynamic={**BATCH, "y": {0: "batch"}},
    )


torchmetrics = library(
    "torchmetrics",
    {
        "mean_squared_error": lambda: _metric("mean_squared_error"),
        "cosine_similarity": lambda: _metric("cosine_similarity"),
        "pearson_corrcoef": lambda: _metric("pearson_corrcoef"),
        "explained_variance": lambda: _metric("explained_variance"),
        "kl_divergence": lambda: _metric("kl_divergence"),
        "signal_noise_ratio": lambda: _metric("signal_noise_ratio"),
    },
)

lightly = library(
    "lightly",
    {
        "head": lambda: Built(
            made("lightly.models.modules:SimCLRProjectionHead", 8, 16, 4), {"x": floats(3, 8)}, **_ROWS
        ),
        "loss": lambda: Built(
            made("lightly.loss:NTXentLoss"),
            {"x": floats(3, 8), "y": floats(3, 8)},
            **_ROWS,
            dynamic={**BATCH, "y": {0: "batch"}},
        ),
        "barlow": lambda: Built(
            made("lightly.loss:BarlowTwinsLoss"),
            {"x": floats(3, 8), "y": floats(3, 8)},
            {"batch": (2, 7)},
            dynamic={**BATCH, "y": {0: "batch"}},
        ),
    },
)
