"""Special functions, in each range where they are computed differently, and at the ends of their domains."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, FLOATS, WIDE_FLOATS, floats, given, ints, numbers, op
from onnx_parity.op_cases.function_sweeps import edges, of_one

#: Why some cases do not run with a NaN.
_NAN_TIMES_ZERO = "torch's kernels leave out the terms of zeros, which NaN makes NaN"

_EDGES = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-6, 0.5)

erfc = op(torch.erfc, floats(3, 40, low=-4.0, high=6.0), dtypes=FLOATS, dynamic=BATCH)
erfc_of_integers = op(torch.erfc, ints(3, 4, low=-3, high=3), dynamic=BATCH)
erfinv = op(torch.erfinv, floats(3, 40, low=-0.99, high=0.99), dtypes=WIDE_FLOATS, dynamic=BATCH)
erfinv_near_ends = op(torch.erfinv, given([0.9999, -0.99999, 0.999999, 1 - 6e-8]))
lgamma = op(
    torch.lgamma,
    floats(3, 40, low=-6.0, high=30.0),
    dtypes=FLOATS,
    tolerance={torch.float64: 1e-14},
    because="nine terms of Lanczos' approximation have an error of 1e-15, absolute where the function crosses 0",
    dynamic=BATCH,
)
lgamma_large = op(torch.lgamma, given([1e3, 1e6, 3e30, 1e-3, 1e-20]))
digamma = op(torch.digamma, floats(3, 40, low=-6.0, high=30.0), dtypes=FLOATS, dynamic=BATCH)
i0 = op(torch.i0, floats(3, 40, low=-20.0, high=20.0), dtypes=FLOATS, dynamic=BATCH)
#: float32 overflows at 88.7 in torch, although the result would fit until 91.9.
i0_large = op(torch.i0, given([8.0, -8.0, 50.0, 88.0, -89.0, 91.0, 300.0]), dtypes=WIDE_FLOATS)
i0e = op(torch.special.i0e, floats(3, 40, low=-20.0, high=20.0), dtypes=FLOATS, dynamic=BATCH)
i0e_large = op(torch.special.i0e, given([8.0, -8.0, 100.0, -1e6, 1e30]), dtypes=WIDE_FLOATS)
i0_of_integers = op(of_one, ints(3, 4, low=-9, high=10), f=[torch.i0, torch.special.i0e])
special_at_edges = op(
    of_one,
    _EDGES,
    f=[torch.erfc, torch.erfinv, torch.lgamma, torch.digamma, torch.angle, torch.i0, torch.special.i0e],
)
lgamma_of_counts = op(lambda n: torch.lgamma(n).div(3, rounding_mode="floor"), ints(3, 4, low=1, high=9))
multigamma = op(torch.mvlgamma, floats(3, 4, low=3.0, high=9.0), p=[1, 3])

# --- Bessel, Airy, zeta, gamma, polynomials ---------------------------------------------------------------------------

_S = torch.special
_EDGES_OF_ORDERS = edges(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 8.0, -8.0, 1e-6, 0.5)
_LOST_SIGN = "onnxruntime's Where makes 0.0 of -0.0"
#: The functions whose float64 kernels in torch are accurate.
_ACCURATE = [
    _S.i1, _S.i1e, _S.modified_bessel_i0, _S.modified_bessel_i1, _S.modified_bessel_k0, _S.modified_bessel_k1,
    _S.scaled_modified_bessel_k0, _S.scaled_modified_bessel_k1, _S.spherical_bessel_j0, _S.erfcx, _S.log_ndtr,
]  # fmt: skip
#: Those of which torch's float64 kernels are off by up to 3e-5 near their zeros: they fit single precision only.
_INACCURATE = [_S.bessel_j0, _S.bessel_j1, _S.bessel_y0, _S.bessel_y1, _S.airy_ai]

accurate = op(
    of_one, floats(3, 40, low=-20.0, high=20.0), f=_ACCURATE, dtypes=WIDE_FLOATS, dynamic=BATCH, tier="default"
)
single = op(of_one, floats(3, 40, low=-20.0, high=20.0), f=_INACCURATE, dynamic=BATCH, tier="default")
double = op(
    of_one,
    floats(3, 40, low=-20.0, high=20.0, dtype=torch.float64),
    f=_INACCURATE[:-1],
    tolerance=1e-6,
    because="torch's float64 kernels have errors of up to 8e-7, ours of 1e-15 in comparison with mpmath",
    tier="default",
)
double_airy = op(
    torch.special.airy_ai,
    floats(3, 40, low=-20.0, high=20.0, dtype=torch.float64),
    tolerance=4e-6,
    because="torch's float64 kernel has errors of up to 3e-6 near -2.09, ours of 1e-15 in comparison with mpmath",
    tier="default",
)
#: Not in float64, in which torch's kernels are less precise than those here, as above.
special_functions_at_edges = op(
    of_one,
    _EDGES_OF_ORDERS,
    f=[*_ACCURATE, *_INACCURATE, _S.ndtri],
    signed_zeros=False,
    because=_LOST_SIGN,
    dtypes=[torch.float32],
    tier="default",
)
ndtri = op(_S.ndtri, floats(3, 40, low=1e-4, high=1 - 1e-4), dtypes=WIDE_FLOATS, dynamic=BATCH, tier="default")
ndtri_near_ends = op(_S.ndtri, given([0.0, 1.0, 0.5, 1e-20, 1e-30, -1.0, 2.0, 1 - 1e-6]), tier="default")
polygamma = op(
    lambda x, n: torch.polygamma(n, x),
    floats(3, 20, low=-6.0, high=30.0),
    n=[0, 1, 2, 3, 4],
    dynamic=BATCH,
    tier="default",
)
polygamma_double = op(
    lambda x, n: torch.polygamma(n, x),
    floats(3, 20, low=-6.0, high=30.0, dtype=torch.float64),
    n=[2, 3],
    tier="default",
)
zeta = op(
    _S.zeta, floats(3, 20, low=0.5, high=20.0), floats(3, 20, low=0.1, high=30.0), dtypes=WIDE_FLOATS, tier="default"
)
zeta_of_negatives = op(
    _S.zeta,
    given([2.0, 3.0, 2.0, 3.5, 1.0, 0.5, 0.0, 1.0]),
    given([-1.5, -2.5, -1.0, -0.5, 2.0, 2.0, -1.0, 0.0]),
    tier="default",
)
zeta_scalar = op(lambda x: (_S.zeta(3.0, x), _S.zeta(x, 1.5)), floats(3, 4, low=1.5, high=9.0), tier="default")
incomplete_gamma = op(
    lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
    floats(3, 20, low=0.01, high=30.0),
    floats(3, 20, low=0.0, high=40.0),
    dynamic={"x0": {0: "batch"}, "x1": {0: "batch"}},
    tier="default",
)
incomplete_gamma_at_edges = op(
    lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
    given([0.0, 0.0, 1.0, -1.0, 1.0, math.inf, math.inf, 2.0, math.nan, 100.0]),
    given([0.0, 1.0, 0.0, 1.0, -1.0, 1.0, math.inf, math.inf, 1.0, 100.0]),
    dtypes=[torch.float32],
    tier="default",
)
_POLYNOMIALS = [
    getattr(_S, name)
    for name in (
        "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
        "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
]  # fmt: skip
polynomials = op(
    lambda x, n, f: f(x, n),
    floats(3, 12, low=-2.0, high=2.0),
    numbers(3, 12, low=-2, high=9),
    f=_POLYNOMIALS,
    tier="default",
    without_nan=_NAN_TIMES_ZERO,
)
polynomials_of_a_batch = op(
    lambda x, n, f: f(x, n),
    floats(3, 4, low=-2.0, high=2.0),
    numbers(4, low=-2, high=9),
    f=_POLYNOMIALS[::3],
    dynamic={"x0": {0: "batch"}},
    tier="default",
    without_nan=_NAN_TIMES_ZERO,
)
polynomials_of_two_degrees = op(
    lambda x: tuple(f(x, degree) for f in (_POLYNOMIALS[0], *_POLYNOMIALS[8:]) for degree in (2, 4)),
    floats(2, 3),
    tier="default",
    without_nan=_NAN_TIMES_ZERO,
)
polynomials_of_one_degree = op(lambda x, f: f(x, 5), floats(3, 12), f=_POLYNOMIALS[::4], dynamic=BATCH, tier="default")

# --- numbers ----------------------------------------------------------------------------------------------------------

#: Numbers whose shape the lowerings ask for.
numbers_with_a_shape = op(
    lambda x: (
        x.index_fill(1, torch.tensor([0, 2]), x.shape[0]),
        torch.bucketize(x.shape[0], torch.tensor([1, 3, 5])),
        torch.searchsorted(torch.tensor([1.0, 1.5, 3.0]), x.shape[0] / 2),
        torch.special.zeta(x.shape[0] + 1.0, x.abs() + 1),
    ),
    floats(4, 3),
    dynamic=BATCH,
)
