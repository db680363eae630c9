"""Airy's function Ai: a Chebyshev series in the middle, what is left of its decay above, and of its waves below.

The coefficients were computed with mpmath in 40 digits, by interpolation at Chebyshev nodes.
"""

from __future__ import annotations

import math

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import Series, choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering

#: Where the middle ends, and the values of zeta = 2/3 |x| ** 1.5 there.
_LOW, _HIGH = -4.5, 2.0
_ZETA_LOW, _ZETA_HIGH = 2 / 3 * 4.5**1.5, 2 / 3 * 2.0**1.5

#: Ai(x) over (x + 1.25) / 3.25.
_MIDDLE = Series((
    0.22064905017049818, 0.07976894794340933, -0.10123985756547924, -0.2329292519928852, 0.22863224105235266,
    -0.0033180203477731884, -0.07897143983425632, 0.03469359780742533, 0.0031410897339072754, -0.007181013899042912,
    0.0019457883763434073, 0.00030234755541280804, -0.0003068776791985746, 5.6404241496137436e-05,
    1.2121861528469184e-05, -7.624708754245266e-06, 9.84219922410226e-07, 2.7822563157282393e-07,
    -1.2377355390137964e-07, 1.1227865691514475e-08, 4.187202308847233e-09, -1.4142282251768014e-09,
    8.721961621871812e-11, 4.471670208053344e-11, -1.1978582389633963e-11, 4.595586432130339e-13,
    3.572360742323853e-13, -7.813774037010858e-14, 1.4630089314393675e-15, 2.2178470574990262e-15,
    -4.0419279490144756e-16, 5.85804670217656e-19, 1.1014773077617126e-17,
))  # fmt: skip
#: exp(zeta) * x ** 0.25 * Ai(x), over 2 * _ZETA_HIGH / zeta - 1.
_FALLING = Series((
    0.5553912190234118, -0.004172967562045923, 0.00020669586013998011, -1.7280997841068207e-05, 1.928052166797157e-06,
    -2.605774398776262e-07, 4.051516883512395e-08, -7.022240440986223e-09, 1.3286081997701028e-09,
    -2.703558037129289e-10, 5.852297782838998e-11, -1.3363584416519756e-11, 3.1978547149289153e-12,
    -7.976813559559603e-13, 2.0651347541109665e-13, -5.52899978215978e-14, 1.526165619010181e-14,
    -4.331979304955806e-15, 1.2616239319898747e-15, -3.7626070399357594e-16, 1.1471616156264618e-16,
    -3.570144365109208e-17, 1.1326462271400218e-17,
))  # fmt: skip
#: F and G * zeta / _ZETA_LOW, over 2 * (_ZETA_LOW / zeta)² - 1, where with z = -x and p = zeta + pi / 4
#: Ai(x) * sqrt(pi) * z ** 0.25 is F * sin(p) - G * cos(p), and Bi(x) * sqrt(pi) * z ** 0.25 is F * cos(p) + G * sin(p).
_SINE = Series((
    1.9991072033185715, -0.00044255600249022215, 3.7464948785574585e-06, -9.147926787106577e-08,
    4.0685023228430725e-09, -2.6897245359447526e-10, 2.363449618675092e-11, -2.576195886826486e-12,
    3.3274850157582603e-13, -4.9322091688066274e-14, 8.196203733152184e-15, -1.5003542015688562e-15,
    2.9845588289887906e-16, -6.382686146177526e-17,
))  # fmt: skip
_COSINE = Series((
    0.021684193552420638, -6.88995660006409e-05, 1.1044242873169551e-06, -3.854686625550563e-08, 2.17975495920445e-09,
    -1.7202253219056978e-10, 1.7358442023339635e-11, -2.117506027699623e-12, 3.005587474851528e-13,
    -4.8303839737929896e-14, 8.614255026469893e-15, -1.6786422639937838e-15, 3.531717537555179e-16,
    -7.945871958625486e-17, 1.8969226761723876e-17, -4.774516589915694e-18, 1.2602583295074153e-18,
    -3.4728001698116483e-19,
))  # fmt: skip


@lowering("aten::special_airy_ai")
def airy_ai(g: Graph, x: Value) -> Value:
    """NaN at infinities, as in torch"""
    argument = wide(g, x)
    middle = _MIDDLE.at(g, g.op("Mul", g.op("Add", g.clip(argument, _LOW, _HIGH), 1.25), 2 / 3.25))
    zeta, root = _zeta(g, g.clip(argument, _HIGH, None))
    rest = _FALLING.at(g, g.op("Sub", g.op("Div", number(g, 4 * _ZETA_HIGH), zeta), 2))
    falling = g.op("Div", g.op("Mul", g.op("Exp", g.op("Neg", zeta)), rest), root)
    zeta, root = _zeta(g, g.op("Neg", g.clip(argument, None, _LOW)))
    inverse = g.op("Div", number(g, _ZETA_LOW), zeta)
    twice = g.op("Sub", g.op("Mul", g.op("Mul", inverse, inverse), 4), 2)
    phase = g.op("Add", zeta, math.pi / 4)
    sine = g.op("Mul", _SINE.at(g, twice), g.op("Sin", phase))
    cosine = g.op("Mul", g.op("Mul", _COSINE.at(g, twice), inverse), g.op("Cos", phase))
    waves = g.op("Div", g.op("Sub", sine, cosine), g.op("Mul", root, math.sqrt(math.pi)))
    below = choose(g, g.less(argument, number(g, _LOW)), waves, middle)
    found = choose(g, g.greater(argument, number(g, _HIGH)), falling, below)
    return result(g, choose(g, g.is_infinite(argument), number(g, math.nan), found))


def _zeta(g: Graph, magnitude: Value) -> tuple[Value, Value]:
    """zeta, and the fourth root"""
    root = g.op("Sqrt", magnitude)
    return g.op("Mul", g.op("Mul", magnitude, root), 2 / 3), g.op("Sqrt", root)
