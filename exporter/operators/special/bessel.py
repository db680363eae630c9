"""Bessel functions of orders 0 and 1: J and Y, the modified I and K, and the spherical j of order 0.

Near 0 a function is a Chebyshev series. Farther away, where it falls, grows or oscillates, a series is what is left
after division by how it does so. The coefficients were computed with mpmath in 40 digits, by interpolation at
Chebyshev nodes; those of I0 are from Cephes, as in torch.
"""

from __future__ import annotations

import math

import torch

from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.operators.special.series import Series, choose, number, result, wide
from onnx_parity.exporter.registry.lowerings import lowering

#: exp(-x) * I0(x) for x from 0 to 8, over x / 4 - 1.
_I0_NEAR = Series((
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
))  # fmt: skip
#: exp(-x) * I0(x) * sqrt(x) for x from 8 on, over 16 / x - 1.
_I0_FAR = Series((
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
))  # fmt: skip
#: exp(-x) * I1(x) / x, and exp(-x) * I1(x) * sqrt(x), over the same.
_I1_NEAR = Series((
    0.25258718644363365, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
))  # fmt: skip
_I1_FAR = Series((
    0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.308202310920928e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893605e-17,
))  # fmt: skip
#: K0(x) + log(x / 2) * I0(x) for x up to 2, over x² / 2 - 1.
_K0_NEAR = Series((
    -0.5353273932339028, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
    1.3744654358807508e-16,
))  # fmt: skip
#: exp(x) * K0(x) * sqrt(x) for x from 2 on, over 4 / x - 1.
_K0_FAR = Series((
    2.4403030820659555, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
    -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17,
))  # fmt: skip
#: x * (K1(x) - log(x / 2) * I1(x)), and exp(x) * K1(x) * sqrt(x), over the same.
_K1_NEAR = Series((
    1.5253002273389478, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864, -0.0001730288957513052,
    -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
    -2.427449850519366e-15,
))  # fmt: skip
_K1_FAR = Series((
    2.7206261904844427, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162, -1.936197974166083e-05,
    2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
    2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11,
    5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15, -6.057047270643018e-16,
    1.8380935752430455e-16, -5.689462849193648e-17,
))  # fmt: skip
#: J0(x) for x up to 8, over x² / 32 - 1.
_J0_NEAR = Series((
    0.31545594294978024, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977, 0.15806710233209725,
    -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
    -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09, 7.848696314479465e-11,
    -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16, 1.2218515873961411e-17,
))  # fmt: skip
#: J1(x) / x.
_J1_NEAR = Series((
    0.16208969265131623, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
    -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
    -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10, 3.160154580348003e-12,
    -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17,
))  # fmt: skip
#: Y0(x) - 2 / pi * log(x) * J0(x).
_Y0_NEAR = Series((
    -0.06629222640656988, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663, -0.17730201278114358,
    0.04719668959576339, -0.007287962479552079, 0.0007531135932577742, -5.632079141056987e-05, 3.206532537654801e-06,
    -1.44072332740187e-07, 5.248794787330516e-09, -1.5837552541812015e-10, 4.02633081830612e-12,
    -8.747341203310769e-14, 1.6434898714919468e-15, -2.6977881152566837e-17,
))  # fmt: skip
#: (Y1(x) - 2 / pi * (log(x) * J1(x) - 1 / x)) / x.
_Y1_NEAR = Series((
    0.005076026471483563, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346, -0.028328123944594365,
    0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05, -3.53808001868935e-06,
    1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10, -6.4651518414115946e-12,
    1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
))  # fmt: skip
#: Hankel's P and Q * x / 8 of order 0 for x from 8 on, over 128 / x² - 1.
_P0 = Series((
    1.9989206986950374, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
))  # fmt: skip
_Q0 = Series((
    -0.031111709210674018, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
    -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
    -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
    -1.6686065214378146e-17, 3.1082440486738143e-18, -6.191115787358145e-19,
))  # fmt: skip
#: The same of order 1.
_P1 = Series((
    2.0018060817200274, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08, -1.8718907491063067e-09,
    8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13, -4.6842237839904895e-14,
    5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
))  # fmt: skip
_Q1 = Series((
    0.09355557413907065, -9.62772354915708e-05, 9.138615257955454e-07, -2.0959781384083424e-08, 8.229193327650554e-10,
    -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13, 3.5967765829165294e-14,
    -4.5612523950772974e-15, 6.508282957783384e-16, -1.0269147531823243e-16, 1.767635548776479e-17,
    -3.2834519872981614e-18,
))  # fmt: skip


# --- I and K ----------------------------------------------------------------------------------------------------------


def _scaled_i(g: Graph, order: int, magnitude: Value) -> Value:
    """exp(-x) * I(x), where x is not negative"""
    near, far = ((_I0_NEAR, _I0_FAR), (_I1_NEAR, _I1_FAR))[order]
    # Each series is evaluated inside its range only: outside it may become infinite or NaN, which `where` before
    # opset 9 would not ignore.
    small, large = g.clip(magnitude, None, 8), g.clip(magnitude, 8, None)
    below = near.at(g, g.op("Sub", g.op("Mul", small, 0.5), 2))
    if order:
        below = g.op("Mul", below, small)
    above = far.at(g, g.op("Sub", g.op("Div", number(g, 32), large), 2))
    return choose(g, g.less(magnitude, number(g, 8)), below, g.op("Div", above, g.op("Sqrt", large)))


def _growing(g: Graph, x: Value) -> Value:
    """exp(|x|), infinite where it is in the dtype that torch computes it in: float32 for halves"""
    magnitude = g.op("Abs", g.cast(x, torch.float64 if g.out.dtype is torch.float64 else torch.float32))
    return g.cast(g.op("Exp", magnitude), torch.float64)


@lowering("aten::i0", "aten::special_modified_bessel_i0")
def i0(g: Graph, self: Value) -> Value:
    return result(g, g.op("Mul", _growing(g, self), _scaled_i(g, 0, g.op("Abs", wide(g, self)))))


@lowering("aten::special_i0e")
def i0e(g: Graph, self: Value) -> Value:
    """exp(-|x|) * I0(x)"""
    return result(g, _scaled_i(g, 0, g.op("Abs", wide(g, self))))


@lowering("aten::special_i1", "aten::special_modified_bessel_i1")
def i1(g: Graph, self: Value) -> Value:
    return result(g, g.op("Mul", _growing(g, self), _odd_i1(g, wide(g, self))))


@lowering("aten::special_i1e")
def i1e(g: Graph, self: Value) -> Value:
    """exp(-|x|) * I1(x)"""
    return result(g, _odd_i1(g, wide(g, self)))


def _odd_i1(g: Graph, x: Value) -> Value:
    scaled = _scaled_i(g, 1, g.op("Abs", x))
    return choose(g, g.less(x, number(g, 0)), g.op("Neg", scaled), scaled)


@lowering("aten::special_modified_bessel_k0", "aten::special_modified_bessel_k1")
def k(g: Graph, self: Value) -> Value:
    return result(g, _k(g, int(g.operator[-1]), wide(g, self), is_scaled=False))


@lowering("aten::special_scaled_modified_bessel_k0", "aten::special_scaled_modified_bessel_k1")
def scaled_k(g: Graph, x: Value) -> Value:
    """exp(x) * K(x)"""
    return result(g, _k(g, int(g.operator[-1]), wide(g, x), is_scaled=True))


def _k(g: Graph, order: int, x: Value, is_scaled: bool) -> Value:
    """K(x), which is infinite at 0 and NaN below"""
    near, far = ((_K0_NEAR, _K0_FAR), (_K1_NEAR, _K1_FAR))[order]
    small, large = g.clip(x, math.ulp(0.0), 2), g.clip(x, 2, None)
    regular = near.at(g, g.op("Sub", g.op("Mul", small, small), 2))
    growth = g.op("Exp", small)
    singular = g.op("Mul", g.op("Log", g.op("Mul", small, 0.5)), g.op("Mul", growth, _scaled_i(g, order, small)))
    below = g.op("Add", g.op("Div", regular, small), singular) if order else g.op("Sub", regular, singular)
    above = g.op("Div", far.at(g, g.op("Sub", g.op("Div", number(g, 8), large), 2)), g.op("Sqrt", large))
    if is_scaled:
        below = g.op("Mul", below, growth)
    else:
        above = g.op("Mul", above, g.op("Exp", g.op("Neg", large)))
    found = choose(g, g.less(x, number(g, 2)), below, above)
    return _defined_above_zero(g, x, found, math.inf)


def _defined_above_zero(g: Graph, x: Value, found: Value, at_zero: float) -> Value:
    """What was found for positive x, NaN below 0, and an infinity at 0."""
    zero = number(g, 0)
    undefined = choose(g, g.less(x, zero), number(g, math.nan), found)
    return choose(g, g.equal(x, zero), number(g, at_zero), undefined)


# --- J and Y ----------------------------------------------------------------------------------------------------------


@lowering("aten::special_bessel_j0", "aten::special_bessel_j1")
def j(g: Graph, self: Value) -> Value:
    order = int(g.operator[-1])
    x = wide(g, self)
    magnitude = g.op("Abs", x)
    near = _j_near(g, order, g.clip(x, -8, 8))
    amplitude, sine, cosine, p, q = _hankel(g, order, g.clip(magnitude, 8, None))
    far = g.op("Mul", amplitude, g.op("Sub", g.op("Mul", p, cosine), g.op("Mul", q, sine)))
    if order:
        far = choose(g, g.less(x, number(g, 0)), g.op("Neg", far), far)
    return result(g, choose(g, g.less(magnitude, number(g, 8)), near, far))


@lowering("aten::special_bessel_y0", "aten::special_bessel_y1")
def y(g: Graph, self: Value) -> Value:
    """The functions of the second kind, which are -infinity at 0 and NaN below"""
    order = int(g.operator[-1])
    x = wide(g, self)
    small = g.clip(x, math.ulp(0.0), 8)
    singular = g.op("Mul", g.op("Log", small), _j_near(g, order, small))
    regular = (_Y1_NEAR if order else _Y0_NEAR).at(g, _over_squares(g, small))
    if order:
        singular = g.op("Sub", singular, g.op("Reciprocal", small))
        regular = g.op("Mul", regular, small)
    near = g.op("Add", regular, g.op("Mul", singular, 2 / math.pi))
    amplitude, sine, cosine, p, q = _hankel(g, order, g.clip(x, 8, None))
    far = g.op("Mul", amplitude, g.op("Add", g.op("Mul", p, sine), g.op("Mul", q, cosine)))
    found = choose(g, g.less(x, number(g, 8)), near, far)
    return result(g, _defined_above_zero(g, x, found, -math.inf))


def _over_squares(g: Graph, x: Value) -> Value:
    """Twice x² / 32 - 1"""
    return g.op("Sub", g.op("Mul", g.op("Mul", x, x), 1 / 16), 2)


def _j_near(g: Graph, order: int, x: Value) -> Value:
    """J(x) for x from -8 to 8"""
    if order:
        return g.op("Mul", x, _J1_NEAR.at(g, _over_squares(g, x)))
    return _J0_NEAR.at(g, _over_squares(g, x))


def _hankel(g: Graph, order: int, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    """For x from 8 on: sqrt(2 / (pi x)), the sine and the cosine of the phase, and Hankel's P and Q, of which J is
    sqrt(2 / (pi x)) * (P cos - Q sin), and Y sqrt(2 / (pi x)) * (P sin + Q cos)"""
    phase = g.op("Sub", x, math.pi / 4 + order * math.pi / 2)
    inverse = g.op("Div", number(g, 8), x)
    twice = g.op("Sub", g.op("Mul", g.op("Mul", inverse, inverse), 4), 2)
    p, q = ((_P0, _Q0), (_P1, _Q1))[order]
    amplitude = g.op("Sqrt", g.op("Div", number(g, 2 / math.pi), x))
    return amplitude, g.op("Sin", phase), g.op("Cos", phase), p.at(g, twice), g.op("Mul", inverse, q.at(g, twice))


@lowering("aten::special_spherical_bessel_j0")
def spherical_j0(g: Graph, x: Value) -> Value:
    """sin(x) / x, which is 1 at 0 and 0 at infinity"""
    argument = wide(g, x)
    is_zero, is_infinite = g.equal(argument, number(g, 0)), g.is_infinite(argument)
    plain = g.op("Or", is_zero, is_infinite)
    divisor = choose(g, plain, number(g, 1), argument)
    found = g.op("Div", g.op("Sin", divisor), divisor)
    return result(g, choose(g, plain, g.cast(is_zero, torch.float64), found))
