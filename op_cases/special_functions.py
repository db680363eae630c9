"""More special functions, in each range where they are computed differently: Bessel, Airy, zeta, gamma, polynomials."""

from __future__ import annotations

import math

import torch

from onnx_parity.harness.case import BATCH, SIGNED_INTS, WIDE_FLOATS, floats, given, ints, numbers, op
from onnx_parity.op_cases.function_sweeps import of_one

_S = torch.special
_EDGES = given([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 8.0, -8.0, 1e-6, 0.5])
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
special_functions_at_edges = op(
    of_one,
    _EDGES,
    f=[*_ACCURATE, *_INACCURATE, _S.ndtri],
    signed_zeros=False,
    because=_LOST_SIGN,
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
)
polynomials_of_a_batch = op(
    lambda x, n, f: f(x, n),
    floats(3, 4, low=-2.0, high=2.0),
    numbers(4, low=-2, high=9),
    f=_POLYNOMIALS[::3],
    dynamic={"x0": {0: "batch"}},
    tier="default",
)
polynomials_of_one_degree = op(lambda x, f: f(x, 5), floats(3, 12), f=_POLYNOMIALS[::4], dynamic=BATCH, tier="default")
frexp = op(
    torch.frexp,
    given([0.0, -0.0, 1.0, -3.0, 0.75, 1e-40, 3e38, 1e-45, 1024.0, 0.1]),
    dtypes=WIDE_FLOATS,
    signed_zeros=False,
    because=_LOST_SIGN,
    tier="default",
)
frexp_of_doubles = op(torch.frexp, given([1e308, -1e-308, 5e-324, 1e-300], dtype=torch.float64), tier="default")
nextafter = op(
    torch.nextafter,
    given([[0.0], [1.0], [-1.0], [2.0], [1e-40], [3e38], [math.inf], [math.nan], [1e-30], [-1e-35]]),
    given([0.0, 2.0, -5.0, math.inf, math.nan]),
    dtypes=WIDE_FLOATS,
    tier="default",
)
#: Whole units in the last place, since the tolerance of floats is wider than one.
nextafter_in_units = op(
    lambda x, y: ((torch.nextafter(x, y) - x) * 2**24).to(torch.int32),
    given([1.0, 1.25, 1.75, 1.9999, 1.5, 1.0]),
    given([2.0, 0.0, 9.0, math.inf, -math.inf, 0.0]),
)
#: Numbers so small that what is added to them would not be exact, which are scaled.
nextafter_of_small = op(
    lambda x, y: ((torch.nextafter(x, y) * 2.0**100 - x * 2.0**100) * 2.0**35).to(torch.int32),
    given([2.0**-110, -(2.0**-112), 2.0**-111, -(2.0**-113)]),
    given([1.0, 0.0, 0.0, -1.0]),
)
divisors = op(
    lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)),
    numbers(3, 20, low=-11, high=12),
    numbers(20, low=-11, high=12),
    dtypes=SIGNED_INTS,
    tier="default",
)
#: The second has more axes, and more steps to go than its first elements.
divisors_of_more_axes = op(torch.gcd, given([1, 21, 89]), given([[1, 13, 144], [2, 34, 55]]), tier="default")
divisors_of_two_dtypes = op(
    lambda a, b: (torch.gcd(a, b), torch.lcm(a, b), torch.gcd(b, a)),
    numbers(3, 4, low=-11, high=12),
    ints(4, low=-11, high=12, dtype=torch.int32),
    dtypes=SIGNED_INTS,
)
divisors_large = op(torch.gcd, given([2**62, 6765 * 10**12, 3**39]), ints(3, low=1, high=2**40), tier="default")
