"""A verification that failed in a test, explained: what differs, where it begins, and a bundle that reproduces it."""

from __future__ import annotations

import os
import platform
import tempfile
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_parity.exporter.arrays import to_fed
from onnx_parity.exporter.errors import VerificationError
from onnx_parity.exporter.request.opsets import NEWEST_OF_ONNXRUNTIME
from onnx_parity.exporter.runtime.sessions import errors_of_runtimes
from onnx_parity.exporter.verification.bundle import Bundle, BundleError, write_bundle
from onnx_parity.exporter.verification.divergence import describe_divergence
from onnx_parity.exporter.verification.repro import OF_ONNX_REFERENCE, OF_ONNXRUNTIME

if TYPE_CHECKING:
    from onnx_parity.exporter.program import ONNXProgram

__all__ = ["explained"]

_PACKAGES = ("onnx-parity", "torch", "onnx", "onnx-ir", "onnxruntime", "numpy")
#: pytest's own variable: the test that runs, and its phase, as in `tests/test_layers.py::test_gelu (call)`.
_CURRENT_TEST = "PYTEST_CURRENT_TEST"


def explained(program: ONNXProgram, error: VerificationError, bundles: Path | None) -> str:
    """The error's own message, and further lines: the first wrong value inside the model, and the bundle."""
    lines = [str(error)]
    if error.trial is not None:
        # The model may fail only with these outputs, or onnxruntime may refuse to load it with them.
        with suppress(*errors_of_runtimes()):
            lines += [describe_divergence(program, error.trial)]
        lines += [_bundle_line(program, error, bundles)]
    return "\n  ".join(line for line in lines if line)


def _bundle_line(program: ONNXProgram, error: VerificationError, bundles: Path | None) -> str:
    try:
        folder = _written(program, error, bundles)
    except (BundleError, OSError) as problem:
        return f"bundle: not written: {problem}"
    return f"bundle: python {folder / 'repro.py'}"


def _written(program: ONNXProgram, error: VerificationError, bundles: Path | None) -> Path:
    assert error.trial is not None
    test = os.environ.get(_CURRENT_TEST, "").rpartition(" ")[0]
    runs_there = program.opset_version <= NEWEST_OF_ONNXRUNTIME
    path = program.runtime_session().path if runs_there else None
    package = "onnxruntime" if runs_there else "onnx"
    versions = {name: metadata.version(name) for name in _PACKAGES}
    feeds = program.feeds(error.trial.args, error.trial.kwargs)
    bundle = Bundle(
        title="\n".join(filter(None, (f"opset {program.opset_version}: {error}", test and f"again:  pytest '{test}'"))),
        model=Path(path) if path is not None else program.serialize(),
        feeds={name: to_fed(given) for name, given in feeds.items()},
        expected=error.expected,
        runtime="onnxruntime" if runs_there else "onnx.reference",
        runner=replace(OF_ONNXRUNTIME if runs_there else OF_ONNX_REFERENCE, needs=(f"{package}=={versions[package]}",)),
        again=(test,) if test else (),
        environment=versions | {"platform": platform.platform()},
    )
    if bundles is None:
        bundles = Path(tempfile.mkdtemp(prefix="onnx-parity-"))
    folder = bundles / f"opset{program.opset_version}"
    write_bundle(bundle, folder)
    return folder
