"""All modules with lowerings. Importing this module registers the lowerings that most programs need.

The other families take a tenth of the time of a process's first export to import, so they are imported when an operator
is met that none of these lowers, when a user registers a lowering, or when all lowerings are listed.
"""

from onnx_parity.exporter.lowering.aten import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    comparison,
    convolution,
    creation,
    cumulative,
    elementwise,
    elementwise_binary,
    embedding,
    indexing,
    joining,
    linear_algebra,
    normalization,
    padding,
    pooling,
    rearrange,
    reduction,
    scatter,
    shape,
)
from onnx_parity.exporter.lowering.custom import autograd, onnx_ops  # noqa: F401
from onnx_parity.exporter.lowering.registry import import_when_needed

__all__: list[str] = []


def _rare_families() -> None:
    """Register all other lowerings. An operator's overloads are all lowered here, or all above."""
    from onnx_parity.exporter.lowering.aten import (  # noqa: F401
        adaptive_pooling,
        airy,
        bessel,
        complex_matrices,
        complex_schur,
        control_flow,
        detection,
        distances,
        divisors,
        floating_point,
        fourier,
        grid_sampling,
        grouped_matmul,
        incomplete_gamma,
        ldl,
        lists,
        loss,
        lu,
        matrix_exponential,
        normal_distribution,
        order_statistics,
        packed_four_bits,
        packed_sequences,
        polynomials,
        qr,
        quantization,
        quantized_decomposed,
        random,
        recurrent,
        resize,
        rotary,
        schur,
        sorting,
        special,
        spectral,
        triangular,
        zeta,
    )


import_when_needed(_rare_families)
