"""The decompositions that a recording uses compute what torch's kernels compute, on the samples of torch's OpInfos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from onnx_parity.exporter.capturing import _decomposition_of
from onnx_parity.exporter.torch_inside.dispatcher import OpOverload, schema_of
from onnx_parity.exporter.torch_inside.modes import TorchDispatchMode
from onnx_parity.exporter.torch_inside.pytree import tree_leaves, tree_map_only
from onnx_parity.harness.cases.opinfo_samples import all_entries

#: Their results are random, or are memory that nobody has written.
_UNDEFINED = ("empty", "rand", "bernoulli", "dropout", "normal", "multinomial", "exponential", "uniform", "geometric")
#: Decompositions that torch documents as computing another thing than the kernel of the CPU, each with the reason.
_OTHERWISE: Mapping[str, str] = {}
#: Composite operators that reach many decompositions and take milliseconds.
_QUICK = {
    "addcdiv", "addcmul", "addmv", "addr", "baddbmm", "celu", "cov", "dist", "frac", "heaviside", "isin", "lerp",
    "logaddexp", "masked.softmax", "nan_to_num", "nn.functional.channel_shuffle", "nn.functional.glu",
    "nn.functional.huber_loss", "nn.functional.mish", "nn.functional.pixel_shuffle", "nn.functional.smooth_l1_loss",
    "nn.functional.softshrink", "renorm", "roll", "rot90", "sinc", "std_mean", "trace", "unfold", "xlogy",
}  # fmt: skip


class _Held(TorchDispatchMode):
    """Calls the decomposition of each operator too, and compares it with the kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.differing: list[str] = []
        self.compared = 0

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        decomposition = None if schema_of(func).is_mutable else _decomposition_of(func)
        name = schema_of(func).name.removeprefix("aten::")
        if decomposition is None or any(part in name for part in _UNDEFINED) or name in _OTHERWISE:
            return func(*args, **kwargs)
        given = tree_map_only(torch.Tensor, torch.clone, (args, dict(kwargs)))
        result = func(*args, **kwargs)
        with torch.no_grad():
            other = decomposition(*given[0], **given[1])
        if other is not NotImplemented:
            self.compared += 1
            self._compare(str(func), result, other)
        return result

    def _compare(self, name: str, result: Any, other: Any) -> None:
        tensors = [[leaf for leaf in tree_leaves(each) if isinstance(leaf, torch.Tensor)] for each in (result, other)]
        try:
            for one, two in zip(*tensors, strict=True):
                torch.testing.assert_close(two, one, equal_nan=True, check_stride=False, rtol=1e-4, atol=1e-5)
        except (AssertionError, ValueError) as difference:
            self.differing.append(f"{name}: {str(difference).splitlines()[0]}")


def held(names: Sequence[str]) -> tuple[int, list[str]]:
    """How many calls were compared, and which differ."""
    differing: list[str] = []
    compared = 0
    torch.manual_seed(0)
    for info in all_entries().values():
        if info.full_name not in names:
            continue
        for sample in info.sample_inputs_func(info, "cpu", torch.float32, False):
            mode = _Held()
            with mode, torch.no_grad():
                info.op(sample.input, *sample.args, **sample.kwargs)
            compared += mode.compared
            differing += mode.differing
    return compared, sorted({*differing})


def test_some_decompositions() -> None:
    compared, differing = held(sorted(_QUICK))
    assert compared > 50
    assert not differing


@pytest.mark.slow
def test_all_decompositions() -> None:
    compared, differing = held([info.full_name for info in all_entries().values() if torch.float32 in info.dtypes])
    assert compared > 1000
    assert not differing


def test_weight_norm_of_a_vector() -> None:
    v, g = torch.randn(5), torch.rand(5)
    with _Held() as mode:
        torch._weight_norm(v, g, 0)
    assert mode.compared == 1 and not mode.differing
