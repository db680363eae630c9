"""The example's layout is that of dynamic inputs: their axes lie in memory in the same order."""

from __future__ import annotations

import pytest
import torch

import onnx_parity


def write_to_flattened(x: torch.Tensor) -> torch.Tensor:
    """What `flatten` makes of a tensor that is not contiguous is a copy."""
    y = x * 1
    y.flatten().mul_(2)
    return y + 0


def squeezed(x: torch.Tensor) -> torch.Tensor:
    y = (x * 1).mT.contiguous().mT.unsqueeze(0).squeeze(0)[:, None].squeeze(1)
    y.flatten().mul_(2)
    return y + 0


def strides(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x + 0, *(torch.tensor(each) for each in (*x.stride(), *(x * 2).stride())))


TRANSPOSED = torch.rand(5, 4).t()


@pytest.mark.parametrize("program", [write_to_flattened, squeezed, strides])
@pytest.mark.parametrize(
    "x", [TRANSPOSED, torch.rand(4, 5), torch.rand(4, 10)[:, ::2]], ids=["transposed", "contiguous", "every_second"]
)
@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
def test_models_have_the_layout_of_the_example(program, x: torch.Tensor) -> None:  # type: ignore[no-untyped-def]
    exported = onnx_parity.export(program, (x,), dynamic_shapes=({0: "n", 1: "m"},))
    torch.testing.assert_close(exported(x), program(x))


def test_channels_last_stays_so_at_other_sizes() -> None:
    x = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    exported = onnx_parity.export(strides, (x,), dynamic_shapes=({0: "batch", 2: "height", 3: "width"},))
    other = torch.rand(4, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    assert exported.assumptions == ()
    torch.testing.assert_close(exported(other), strides(other))
