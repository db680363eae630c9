"""Programs drawn from statements in which sizes, layouts, writes, branches and dtypes meet.

Wherever the assumptions of its model hold, the model computes what the program does, and it never fails there. Sizes
of 0 are tried elsewhere: slices take the last element of an axis to be there.
"""

from __future__ import annotations

import itertools
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import onnx_parity

_STATEMENTS = (
    # Layouts, and what is written to them.
    "v = v.t()", "v = v.t().contiguous()", "v = v.contiguous()", "v = v.movedim(0, 1)", "v = v.mT.contiguous().mT",
    "w = v.clone(); w[:, 0] = 1.5; v = w", "v[0] = 2.0", "v[:, :1] = v[:, -1:]", "w = v.t(); w[0] = 3.0",
    "w = v.t().contiguous(); w[0] = 3.0; v = v + w.t()", "w = v.view(-1); w[::2] = 0.5", "w = v[:, :2]; w += 1",
    "w = v.flatten(); w *= 2", "w = v.t().flatten(); w *= 2; v = v + 1",
    # Reshapes.
    "w = v.reshape(v.shape[1], v.shape[0]); v = v * 2 + w.t()", "a, b = v.shape; v = v.view(b, a) * 1.0",
    "v = v.view(v.shape[0], 1, v.shape[1]).expand(-1, 2, -1).reshape(v.shape[0], -1)",
    "v = v.reshape(-1, 2) if v.numel() % 2 == 0 else v", "v = torch.stack([v, v * 2], 0).flatten(0, 1)",
    "v = v.unflatten(1, (-1, 1)).squeeze(-1)", "v = v.unsqueeze(0).squeeze(0)", "v = v.repeat(2, 1)",
    # Parts, with sizes that are computed.
    "v = v[::2]", "v = v[:, v.shape[1] // 2 :]", "v = torch.cat([v, v[:1]])", "v = v[: max(v.shape[0] - 2, 1)]",
    "v = v.chunk(2)[0]", "v = v.narrow(0, 0, max(v.shape[0] - 1, 1))", "v = v[torch.arange(v.shape[0])]",
    "v = torch.cat([v, x], 1) if v.shape[0] == x.shape[0] else v", "v = v.topk(min(2, v.shape[1]), 1)[0]",
    "v = functional.pad(v, (0, v.shape[0] % 2))", "v = v.unfold(0, 2, 1).sum(-1) if v.shape[0] > 1 else v",
    "v = v.diagonal().unsqueeze(1) if v.shape[0] == v.shape[1] else v",
    # Branches on sizes, and sizes as numbers.
    "v = v * (v.shape[0] % 2 == 0)", "v = v * int(v.shape[1] > 3)", "v = v if v.shape[0] > 2 else v * 2",
    "v = v.sum(0, keepdim=True) if v.shape[0] == 1 else v + 1", "v = v - 1 if v.shape[1] % 3 == 0 else v",
    "v = v.squeeze(0)[None] if v.shape[0] == 1 else v", "v = v @ v.t() if v.shape[0] > 1 else v",
    "v = v + torch.arange(v.shape[1])", "v = torch.eye(v.shape[0], v.shape[1]) + v", "v = v / (v.shape[0] + 1)",
    # Values and dtypes.
    "v = v.softmax(-1)", "v = v.cumsum(0)", "v = v - v.mean(0)", "v = v.sort(0)[0]", "v = v.flip(0).roll(1, 0)",
    "v = torch.where(v > 0, v, v * 0.5)", "v = v.masked_fill(v > 1, -3)", "v = v.double().float()",
    "v = functional.interpolate(v[None, None], scale_factor=1.5)[0, 0]", "v = v.long().float()", "v = v.tril()",
)  # fmt: skip
_SIZES = (1, 2, 3, 4, 5, 8)


def _program(seed: int, folder: Path) -> tuple[Any, list[str]]:
    draw = random.Random(seed)
    lines = draw.choices(_STATEMENTS, k=draw.randint(1, 5))
    file = folder / "program.py"
    file.write_text("\n    ".join(["def program(x):", "v = x * 1.0", *lines, "return v + 0, x + 0"]) + "\n")
    names: dict[str, Any] = {"torch": torch, "functional": functional}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["program"], lines


@pytest.mark.parametrize(
    "seed",
    [
        *range(30),
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(30, 600)),
    ],
)
def test_a_model_is_right_for_every_size_that_it_allows(seed: int, tmp_path: Path) -> None:
    program, lines = _program(seed, tmp_path)
    numbers = torch.Generator().manual_seed(seed)
    example = torch.randn(random.Random(seed).choice([2, 3, 4]), 5, generator=numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        try:
            exported = onnx_parity.export(program, (example.clone(),), dynamic_shapes=({0: "n", 1: "m"},))
        except onnx_parity.DynamicAxisError:
            return  # It has one size for the program.
        except onnx_parity.errors.ProgramFailedError:
            with pytest.raises(RuntimeError):
                program(example.clone())
            return
    compared = 0
    for n, m in itertools.product(_SIZES, _SIZES):
        x = torch.randn(n, m, generator=numbers)
        try:
            expected = program(x.clone())
        except (RuntimeError, IndexError, ValueError):
            continue
        if all(each.holds_for({"n": n, "m": m}) for each in exported.assumptions):
            compared += 1
            for one, other in zip(exported(x), expected, strict=True):
                assert one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True), (
                    f"{lines} for {n} and {m}, where {[each.condition for each in exported.assumptions]}"
                )
    assert compared, f"{lines}: {[each.condition for each in exported.assumptions]} hold for no size"
