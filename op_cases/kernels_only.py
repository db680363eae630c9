"""Operators that torch has as kernels only, which are recorded as others: histograms, CTC loss, segments and more."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnx_parity.harness.case import floats, given, ints, numbers, op

# --- histograms -------------------------------------------------------------------------------------------------------

_EDGES = given([-2.0, -0.5, 0.0, 1.5])


def counted(x: torch.Tensor, bins: int, low: float, high: float, density: bool = False) -> tuple[torch.Tensor, ...]:
    return tuple(torch.histogram(x, bins, range=(low, high), density=density))


histogram = op(counted, floats(3, 7), bins=[4], low=-2.0, high=2.0, density=[False, True])
histogram_of_its_range = op(lambda x: tuple(torch.histogram(x, 5)), floats(20))
histogram_of_weights = op(lambda x, w: tuple(torch.histogram(x, 3, range=(-1, 1), weight=w)), floats(9), floats(9))
histogram_at_edges = op(lambda x, edges: torch.histogram(x, edges).hist, numbers(12, low=-3, high=3), _EDGES)
histogram_in_two = op(
    lambda x: torch.histogramdd(x, [3, 2], range=[-2.0, 2.0, -1.0, 1.0], density=True).hist, floats(11, 2)
)

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
ctc_loss_of_labels_in_a_row = op(
    ctc, floats(6, 2, 5), given([1, 2, 2]), given([6, 6]), given([1, 2]), zero_infinity=False
)
segments = op(
    lambda x, lengths, reduce: torch.segment_reduce(x, reduce, lengths=lengths, axis=0, unsafe=True),
    floats(5, 3), given([2, 0, 3]), reduce=["sum", "mean", "max", "min", "prod"],
)  # fmt: skip
mode = op(lambda x, dim: tuple(torch.mode(x, dim)), numbers(5, 6, low=0, high=3), dim=[0, -1])
fractional_pooling = op(
    lambda x, samples: F.fractional_max_pool2d_with_indices(x, (2, 2), output_size=(3, 4), _random_samples=samples),
    floats(2, 3, 7, 9), floats(2, 3, 2, low=0.0, high=1.0),
)  # fmt: skip
pooling_backwards = op(
    lambda x, y: torch.ops.aten.max_pool2d_with_indices_backward(
        y, x, [2, 2], [2, 2], [0, 0], [1, 1], False, F.max_pool2d(x, 2, return_indices=True)[1]
    ),
    floats(2, 3, 6, 4), floats(2, 3, 3, 2),
)  # fmt: skip
flipped = op(lambda x: x.flip(0, 1), floats(3, 4), dynamic={"x": {0: "batch", 1: "length"}})
bilinear_of_any_batch = op(
    torch.nn.Bilinear(3, 4, 2), floats(2, 3), floats(2, 4), dynamic={"x0": {0: "batch"}, "x1": {0: "batch"}}
)
