"""Where the sign of a zero means nothing: ONNX does not say which one an operator gives, or says another than torch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx_parity.harness.search.generated import GeneratedProgram

_QUOTIENTS = (
    "torch gives a quotient or remainder that is zero the sign of the exact value, and ONNX's formulas give none"
)
_SUMS = "whether a sum begins with 0.0 or with its first term is left open, and decides over -0.0"
_EQUAL = "0.0 and -0.0 are equal, and ONNX's Max and Min may return either"
_FORMULA = "ONNX defines it by a formula that is 0.0 for -0.0"
_NORMS = "where a value is its own mean, the formula decides over the sign, and ONNX leaves the formula open"
_WEIGHED = "whether a sum of weighted neighbours begins with 0.0 is left open, and decides over -0.0"
_FACTORS = "LAPACK decides over the signs of zeros in a factor or a solution, and ONNX has none of these operators"

_REPLACED = "where ONNX or onnxruntime has no such operator, the operators that replace it give zeros no sign"

#: Functions and operators of torch, with the reason. Declarations of `op_cases/` that have `signed_zeros=False` say the
#: same of those functions whose cases have zeros of both signs.
WITHOUT_SIGN: Mapping[str, str] = {
    "softshrink": "torch gives zeros the sign of the input, and ONNX's Shrink, like the form for earlier opsets, none",
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), _NORMS),
    **dict.fromkeys(("//", "%", "fmod", "remainder", "floor_divide", "rounding_mode"), _QUOTIENTS),
    **dict.fromkeys(("@", "matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "outer", "tensordot"), _SUMS),
    **dict.fromkeys(("addmm", "addbmm", "baddbmm", "addmv", "addr", "einsum", "linear", "bilinear"), _SUMS),
    **dict.fromkeys(("cumsum", "logcumsumexp", "cumulative_trapezoid", "trapezoid", "trapz"), _SUMS),
    **dict.fromkeys(
        ("fft", "ifft", "rfft", "fft2", "ifft2", "rfft2", "fftn", "ifftn", "rfftn", "stft", "istft"), _SUMS
    ),
    **dict.fromkeys(("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn", "ihfft", "ihfft2", "ihfftn"), _SUMS),
    **dict.fromkeys(("scatter_add", "index_add"), _SUMS),
    **dict.fromkeys((f"conv{kind}{axes}d" for kind in ("", "_transpose") for axes in (1, 2, 3)), _SUMS),
    **dict.fromkeys(("interpolate", "upsample", "grid_sample", "affine_grid"), _WEIGHED),
    **dict.fromkeys(("qr", "svd", "eig", "eigh", "lu", "lu_factor", "lu_solve", "ldl_factor", "ldl_solve"), _FACTORS),
    **dict.fromkeys(("cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "ormqr", "orgqr"), _FACTORS),
    **dict.fromkeys(("householder_product", "inv", "inverse", "pinv", "pinverse", "matrix_exp", "lstsq"), _FACTORS),
    **dict.fromkeys(("solve", "solve_triangular", "triangular_solve", "tensorinv", "tensorsolve"), _FACTORS),
    "margin_ranking_loss": _EQUAL,
    **dict.fromkeys(("max", "min", "maximum", "minimum", "amax", "amin", "fmax", "fmin"), _EQUAL),
    # The same as arguments, which `scatter_reduce` has.
    **dict.fromkeys(("'amax'", "'amin'"), _EQUAL),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "clip"), _EQUAL),
    **dict.fromkeys(("selu", "celu"), _FORMULA),
    **dict.fromkeys(("trunc", "fix", "frac"), _REPLACED),
}
_NAMES = "|".join(name for name in WITHOUT_SIGN if name.isidentifier())
_SYMBOLS = "|".join(re.escape(name) for name in WITHOUT_SIGN if not name.isidentifier())
#: A part of a program, `self.name(x0)`, may call any of them.
_CALLED = re.compile(rf"(?<!\w)(?:{_NAMES})_?(?=[(=])|{_SYMBOLS}|\bself\.")


def have_sign(program: GeneratedProgram) -> list[bool]:
    """Whether the sign of a zero means something, for each output: nothing that it depends on calls such a function.

    Where such a result is written into a value, that may be a view of any other, so that no output is told apart.
    """
    without: set[str] = set()
    for line in program.lines:
        if _CALLED.search(line.text) or not without.isdisjoint(line.reads):
            if not line.makes:
                return [False] * len(program.outputs)
            without.update(line.makes)
    return [name not in without for name in program.outputs]


def case_has_sign(label: str) -> bool:
    """Whether the sign of a zero means something in the results of a declared case, by the functions that its label
    names: `operator_database.fft.ihfft2[sample=0]`, or `matmul[...]` of a declaration of that name."""
    return WITHOUT_SIGN.keys().isdisjoint(label.partition("[")[0].split("."))
