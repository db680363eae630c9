"""Whether one size is never greater than another, for all sizes within the declared ranges."""

from __future__ import annotations

from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

__all__ = ["in_order"]

_Ranges = dict[sympy.Symbol, ValueRanges[Any]]


def in_order(low: sympy.Expr, high: sympy.Expr, ranges: _Ranges) -> bool:
    """Whether it can be shown that `low` is at most `high`."""
    if low == high:
        return True
    if isinstance(low, Max):
        return all(in_order(each, high, ranges) for each in low.args)
    if isinstance(high, Min):
        return all(in_order(low, each, ranges) for each in high.args)
    if isinstance(low, Min) and any(in_order(each, high, ranges) for each in low.args):
        return True
    if isinstance(high, Max) and any(in_order(low, each, ranges) for each in high.args):
        return True
    return _is_never_negative(high - low, ranges)


def _is_never_negative(difference: sympy.Expr, ranges: _Ranges) -> bool:
    known = dict(ranges)
    # A quotient rounded down is (size - rest) / divisor, and torch's bounds of the two sizes alone do not know that.
    whole: dict[sympy.Basic, sympy.Basic] = {}
    for quotient in difference.atoms(FloorDiv, Mod, PythonMod):
        size, divisor = quotient.args
        if divisor.is_Integer and divisor > 0 and bound_sympy(size, ranges).lower >= 0:
            rest = sympy.Dummy(f"rest of {size} / {divisor}")
            known[rest] = ValueRanges(0, divisor - 1)
            whole[quotient] = (size - rest) / divisor if isinstance(quotient, FloorDiv) else rest
    least: Any = sympy.Integer(0)
    for term, factor in sympy.expand(difference.xreplace(whole)).as_coefficients_dict().items():
        bounds = ValueRanges(1, 1) if term == 1 else bound_sympy(term, known)
        end = bounds.lower if factor > 0 else bounds.upper
        if end in (int_oo, -int_oo, sympy.oo, -sympy.oo):
            if (end > 0) != (factor > 0):
                return False
            # No other term makes up for this one, so the sum has no upper bound rather than no lower one.
            continue
        least += factor * end
    # The difference is a whole number, so that it is not negative if it is more than -1.
    return bool(least > -1)
