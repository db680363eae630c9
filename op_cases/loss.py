"""Losses: reductions of a distance between an input and a target, and the CTC loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import BATCHES, WIDE_FLOATS, floats, given, ints, op

#: Why some cases do not run with a NaN.
_NAN_LEFT_OUT = "torch's kernel leaves margins that are NaN out"

_REDUCTION = ["none", "mean", "sum"]
_X, _Y = floats(3, 4), floats(3, 4)
_PROBABILITY = floats(3, 4, low=0.05, high=0.95)

l1_loss = op(F.l1_loss, _X, _Y, reduction=_REDUCTION, dynamic=BATCHES)
mse_loss = op(F.mse_loss, _X, _Y, reduction=_REDUCTION, dynamic=BATCHES)
smooth_l1_loss = op(F.smooth_l1_loss, _X, _Y, reduction=_REDUCTION, beta=[0.0, 0.5, 1.0])
huber_loss = op(F.huber_loss, _X, _Y, reduction=_REDUCTION, delta=[0.5, 1.0])
cross_entropy = op(
    F.cross_entropy,
    floats(4, 5),
    given([1, 0, 4, 2]),
    reduction=_REDUCTION,
    ignore_index=[-100, 4],
    label_smoothing=[0.0, 0.1],
)
cross_entropy_weight = op(
    F.cross_entropy, floats(4, 5), given([1, 0, 4, 2]), weight=floats(5, low=0.1), reduction=_REDUCTION
)
cross_entropy_plane = op(F.cross_entropy, floats(2, 5, 3, 4), ints(2, 3, 4, high=5), reduction=_REDUCTION)
cross_entropy_probabilities = op(F.cross_entropy, floats(3, 4), _PROBABILITY, reduction=_REDUCTION)
cross_entropy_single = op(F.cross_entropy, floats(5), given(3), reduction=_REDUCTION)
nll_loss = op(
    F.nll_loss,
    floats(4, 5),
    given([1, 0, 4, 2]),
    reduction=_REDUCTION,
    ignore_index=[-100, 4],
    weight=[None, floats(5, low=0.1)],
)
nll_loss_any_batch = op(
    F.nll_loss, floats(4, 5), ints(4, high=5), reduction=_REDUCTION, dynamic=BATCHES, sizes={"batch": [1, 7]}
)
nll_loss_plane = op(F.nll_loss, floats(2, 5, 3, 4), ints(2, 3, 4, high=5), reduction=_REDUCTION, ignore_index=[-100, 4])
nll_loss_all_ignored = op(F.nll_loss, floats(2, 3), given([1, 1]), ignore_index=1, reduction=_REDUCTION)
binary_cross_entropy = op(F.binary_cross_entropy, _PROBABILITY, _PROBABILITY, reduction=_REDUCTION)
binary_cross_entropy_weight = op(F.binary_cross_entropy, _PROBABILITY, _PROBABILITY, weight=floats(3, 4, low=0.1))
binary_cross_entropy_ends = op(
    F.binary_cross_entropy, given([0.0, 1.0, 0.0, 1.0]), given([0.0, 1.0, 1.0, 0.0]), reduction=_REDUCTION
)
binary_cross_entropy_with_logits = op(
    F.binary_cross_entropy_with_logits, _X, _PROBABILITY, reduction=_REDUCTION, pos_weight=[None, floats(4, low=0.1)]
)
kl_div = op(F.kl_div, _X, _PROBABILITY, reduction=[*_REDUCTION, "batchmean"], log_target=[False, True])
soft_margin_loss = op(F.soft_margin_loss, _X, given([[1.0, -1.0, 1.0, -1.0]] * 3), reduction=_REDUCTION)
multi_margin_loss = op(
    F.multi_margin_loss,
    floats(4, 5),
    given([1, 0, 4, 2]),
    reduction=_REDUCTION,
    p=[1, 2],
    dtypes=WIDE_FLOATS,
    without_nan=_NAN_LEFT_OUT,
)
multilabel_margin_loss = op(
    F.multilabel_margin_loss,
    floats(2, 4),
    given([[3, 0, -1, 1], [2, -1, 0, 0]]),
    reduction=_REDUCTION,
    dtypes=WIDE_FLOATS,
    without_nan=_NAN_LEFT_OUT,
)
multilabel_margin_loss_of_one = op(
    F.multilabel_margin_loss,
    floats(4),
    given([3, 0, -1, 1]),
    reduction=_REDUCTION,
    dtypes=WIDE_FLOATS,
    without_nan=_NAN_LEFT_OUT,
)
multilabel_soft_margin_loss = op(F.multilabel_soft_margin_loss, _X, _PROBABILITY, reduction=_REDUCTION)
hinge_embedding_loss = op(F.hinge_embedding_loss, _X, given([[1.0, -1.0, 1.0, -1.0]] * 3), reduction=_REDUCTION)
cosine_embedding_loss = op(F.cosine_embedding_loss, _X, _Y, given([1, -1, 1]), margin=[0.0, 0.3], reduction=_REDUCTION)
margin_ranking_loss = op(F.margin_ranking_loss, floats(4), floats(4), given([1, -1, 1, -1]), reduction=_REDUCTION)
triplet_margin_loss = op(
    F.triplet_margin_loss, _X, _Y, floats(3, 4), p=[1.0, 2.0], swap=[False, True], reduction=_REDUCTION
)
poisson_nll_loss = op(
    F.poisson_nll_loss,
    _X,
    floats(3, 4, low=0.5, high=3.0),
    log_input=[False, True],
    full=[False, True],
    reduction=_REDUCTION,
)
gaussian_nll_loss = op(F.gaussian_nll_loss, _X, _Y, floats(3, 4, low=0.1), full=[False, True], reduction=_REDUCTION)
cosine_similarity = op(F.cosine_similarity, _X, _Y, dim=[0, 1])
pairwise_distance = op(F.pairwise_distance, _X, _Y, p=[1.0, 2.0, 3.0], keepdim=[False, True])


# --- others -----------------------------------------------------------------------------------------------------------


def ctc(
    scores: torch.Tensor, targets: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, zero_infinity: bool
) -> torch.Tensor:
    if scores.shape[-1] < 5:
        raise ValueError("the labels are below 5; torch does not check that there are as many classes")
    log_probs = scores.log_softmax(-1)
    return F.ctc_loss(log_probs, targets, inputs, labels, reduction="none", zero_infinity=zero_infinity)


ctc_loss = op(
    ctc, floats(6, 3, 5), ints(3, 2, low=1, high=5), given([6, 5, 6]), given([2, 1, 0]), zero_infinity=[False, True]
)
ctc_loss_of_any_steps = op(
    ctc,
    floats(6, 3, 5),
    ints(3, 2, low=1, high=5),
    ints(3, high=4),
    ints(3, high=3),
    zero_infinity=True,
    dynamic={"x0": {0: "steps", 1: "batch"}, "x1": {0: "batch"}, "x2": {0: "batch"}, "x3": {0: "batch"}},
    sizes={"steps": [3, 11], "batch": [1, 5]},
)
ctc_loss_of_no_steps = op(
    ctc, floats(4, 3, 5), ints(3, 2, low=1, high=5), given([0, 4, 0]), given([0, 2, 1]), zero_infinity=False
)
ctc_loss_of_labels_in_a_row = op(
    ctc, floats(6, 2, 5), given([1, 2, 2]), given([6, 6]), given([1, 2]), zero_infinity=False
)
losses_with_weights = op(
    lambda x, y, w, f: f(x, y, weight=w), _X, _Y, floats(3, 4, low=0.1), f=[F.l1_loss, F.mse_loss, F.huber_loss]
)
logits_with_weights = op(F.binary_cross_entropy_with_logits, _X, _PROBABILITY, weight=floats(3, 4, low=0.1))
labels_with_weights = op(F.multilabel_soft_margin_loss, _X, _PROBABILITY, weight=floats(4, low=0.1))
margins_with_weights = op(
    F.multi_margin_loss,
    floats(4, 5),
    given([1, 0, 4, 2]),
    margin=0.5,
    weight=floats(5, low=0.1),
    without_nan=_NAN_LEFT_OUT,
)
ranking_with_a_margin = op(F.margin_ranking_loss, floats(4), floats(4), given([1.0, -1.0, 1.0, -1.0]), margin=0.5)
#: Variances and differences that are not much larger than eps.
gaussian_with_eps = op(F.gaussian_nll_loss, _X, _Y, var=given([[1e-3], [0.2], [0.5]]), eps=0.1)
poisson_with_eps = op(F.poisson_nll_loss, floats(3, 4, low=0.0, high=0.1), _PROBABILITY, log_input=False, eps=0.05)
triplets_with_eps = op(F.triplet_margin_loss, _X, _Y, floats(3, 4), eps=0.3, swap=[False, True])
triplets_by_distance = op(
    lambda a, p, n, swap: F.triplet_margin_with_distance_loss(
        a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1), swap=swap, reduction="sum"
    ),
    _X,
    _Y,
    floats(3, 4),
    swap=[False, True],
)
cosines_of_small_rows = op(F.cosine_similarity, floats(3, 4, low=0.0, high=1e-2), floats(3, 4), dim=[0, -2], eps=0.5)
#: A blank that is not the first class, and more labels than there is time for.
ctc_with_a_blank = op(
    F.ctc_loss,
    floats(4, 2, 5),
    given([[1, 2, 3], [3, 3, 3]]),
    given([4, 4]),
    given([2, 3]),
    blank=4,
    zero_infinity=True,
)
