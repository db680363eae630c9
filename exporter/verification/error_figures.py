"""The size of the error of each output of an exported model. (`verify` gives a verdict instead.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from onnx_parity.exporter.errors import ArgumentError

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram
    from onnx_parity.exporter.verification.trials import Trial

__all__ = ["VerificationInfo", "verify_onnx_program"]

#: The edges of the histograms.
_BINS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)
_LEAST = 1e-7


@dataclass(frozen=True, slots=True)
class VerificationInfo:
    """The errors of one output. They are infinite where shapes differ, or where only one of the two is NaN."""

    name: str
    max_abs_diff: float
    max_rel_diff: float
    #: The counts, and the edges of the bins.
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
        """The fields as values that JSON can represent."""
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
    """The errors of each output against torch, for these arguments or for those of the export.

        With `compare_intermediates` the list begins with the values inside the model that the program has too, by their
    names in the model and in the order in which they are computed. All of them are kept in memory while they are
    compared. `ONNXProgram.verify` decides whether errors are too large.
    """
    from onnx_parity.exporter.runtime.sessions import item_by_item
    from onnx_parity.exporter.verification.program_outputs import ProgramOutputs
    from onnx_parity.exporter.verification.trials import Trial

    trial = Trial.given(onnx_program.source, args, kwargs)
    feeds = onnx_program.feeds(trial.args, trial.kwargs)
    in_torch = ProgramOutputs.of(onnx_program)
    expected = in_torch.outputs(trial)
    actual = onnx_program.runtime_session().run(feeds)[: onnx_program.returned.outputs]
    names = [
        name if isinstance(output, torch.Tensor) else f"{name}[{number}]"
        for name, output in zip(onnx_program.output_names, actual, strict=False)
        for number in range(1 if isinstance(output, torch.Tensor) else len(output))
    ]
    named = zip(names, expected, item_by_item(actual), strict=True)
    outputs = [VerificationInfo.from_tensors(name, want, got) for name, want, got in named]
    return [*(_intermediates(onnx_program, trial) if compare_intermediates else ()), *outputs]


def _intermediates(program: ONNXProgram, trial: Trial) -> Iterator[VerificationInfo]:
    from onnx_parity.exporter.verification.intermediates import computed, shared_values

    graph = program.source.recorded
    feeds = program.feeds(trial.args, trial.kwargs)
    inputs = [feeds[name] for name in program.input_names]
    tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
    if graph is None or len(tensors) != len(inputs):
        raise ArgumentError(
            "compare_intermediates=True works only if every input is a tensor, but some are lists or None: call "
            "verify_onnx_program without it"
        )
    known = computed(graph, tensors)
    shared = {name: known[value] for name, value in shared_values(program).items() if value in known}
    names = [name for name in shared if name not in program.output_names]
    for name, got in zip(names, program.compute_values(names, trial.args, trial.kwargs), strict=True):
        yield VerificationInfo.from_tensors(name, shared[name], got)


def _differences(wanted: torch.Tensor, got: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if wanted.shape != got.shape:
        return torch.tensor([torch.inf]), torch.tensor([torch.inf])
    wide = torch.complex128 if wanted.is_complex() or got.is_complex() else torch.float64
    a, b = wanted.to(wide), got.to(wide)
    alike = (a == b) | (a.isnan() & b.isnan())
    absolute = torch.where(alike, 0.0, (a - b).abs().nan_to_num(nan=torch.inf))
    return absolute.reshape(-1), (absolute / (a.abs() + _LEAST)).nan_to_num(nan=torch.inf).reshape(-1)
