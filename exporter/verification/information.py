"""How far each output of an exported model is from the program's: figures, where `verify` gives a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from exporter.errors import ArgumentError

if TYPE_CHECKING:
    from exporter.program import ONNXProgram

__all__ = ["VerificationInfo", "verify_onnx_program"]

#: The edges of the histograms.
_BINS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)
_LEAST = 1e-7


@dataclass(frozen=True, slots=True)
class VerificationInfo:
    """One output. A difference in shape, and NaN where the other has a number, are infinitely far."""

    name: str
    max_abs_diff: float
    max_rel_diff: float
    #: Counts and the edges of the bins.
    abs_diff_hist: tuple[torch.Tensor, torch.Tensor]
    rel_diff_hist: tuple[torch.Tensor, torch.Tensor]
    expected_dtype: torch.dtype
    actual_dtype: torch.dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        wanted, got = torch.as_tensor(expected).detach().cpu(), torch.as_tensor(actual).detach().cpu()
        absolute, relative = _differences(wanted, got)
        bins = torch.tensor(_BINS)
        return cls(
            name=name,
            max_abs_diff=float(absolute.max()) if absolute.numel() else 0.0,
            max_rel_diff=float(relative.max()) if relative.numel() else 0.0,
            abs_diff_hist=tuple(torch.histogram(absolute.float(), bins)),  # type: ignore[arg-type]
            rel_diff_hist=tuple(torch.histogram(relative.float(), bins)),  # type: ignore[arg-type]
            expected_dtype=wanted.dtype,
            actual_dtype=got.dtype,
        )

    def asdict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = asdict(self)
        for name in ("abs_diff_hist", "rel_diff_hist"):
            plain[name] = [part.tolist() for part in plain[name]]
        return {**plain, "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def verify_onnx_program(
    onnx_program: ONNXProgram,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    compare_intermediates: bool = False,
) -> list[VerificationInfo]:
    """How far each output is from the program's in torch, for these arguments or those that it was exported with.

    `ONNXProgram.verify` says whether that is too far.
    """
    from exporter.verification.expectation import item_by_item, outputs_of
    from exporter.verification.trials import Trial

    if compare_intermediates:
        raise ArgumentError(
            "compare_intermediates=True is not possible: the exported graph has no value for each of the program's. "
            "ONNXProgram.compute_values gives those that it has"
        )
    source = onnx_program.source
    trial = Trial.given(source, args, kwargs)
    expected = outputs_of(source, onnx_program.returned, trial)
    actual = onnx_program.runtime_session().run(onnx_program.feeds(trial.args, trial.kwargs))
    names = [
        name if isinstance(output, torch.Tensor) else f"{name}[{number}]"
        for name, output in zip(onnx_program.output_names, actual, strict=True)
        for number in range(1 if isinstance(output, torch.Tensor) else len(output))
    ]
    named = zip(names, expected, item_by_item(actual), strict=True)
    return [VerificationInfo.from_tensors(name, want, got) for name, want, got in named]


def _differences(wanted: torch.Tensor, got: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if wanted.shape != got.shape:
        return torch.tensor([torch.inf]), torch.tensor([torch.inf])
    wide = torch.complex128 if wanted.is_complex() or got.is_complex() else torch.float64
    a, b = wanted.to(wide), got.to(wide)
    alike = (a == b) | (a.isnan() & b.isnan())
    absolute = torch.where(alike, 0.0, (a - b).abs().nan_to_num(nan=torch.inf))
    return absolute.reshape(-1), (absolute / (a.abs() + _LEAST)).nan_to_num(nan=torch.inf).reshape(-1)
