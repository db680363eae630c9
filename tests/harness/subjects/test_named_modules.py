"""Modules in options: one that does not exist ends the run, one that cannot be imported makes its cells absent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onnx_parity.harness.axes import AxisError, Selection
from onnx_parity.harness.pytest_plugin.named_modules import refuse_missing_modules

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--parity-runtimes", "onnxruntime,backend:zzqqxx.backend"],
            "--runtimes backend:zzqqxx.backend: there is no module 'zzqqxx'; install it, or run in the folder that "
            "contains it.",
        ),
        (
            ["--parity-exporters", "parity,onnx_partiy.export:to_onnx"],
            "--exporters onnx_partiy.export:to_onnx: there is no module 'onnx_partiy'; the nearest is 'onnx_parity'.",
        ),
    ],
)
def test_a_module_that_does_not_exist_ends_the_run(pytester: pytest.Pytester, options: list[str], message: str) -> None:
    result = pytester.runpytest_inprocess("-p", "onnx_parity", "-p", "no:cacheprovider", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert not (pytester.path / "runs").exists()


def test_a_module_that_exists_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\n")
    for selection in (
        Selection(runtimes=("onnxruntime:none", "backend:needs_more", "backend:onnxruntime.no_such_part")),
        Selection(exporters=("parity", "needs_more:to_onnx")),
    ):
        refuse_missing_modules(selection, [tmp_path])
    with pytest.raises(AxisError, match=re.escape("there is no module 'need_more'; the nearest is 'needs_more'.")):
        refuse_missing_modules(Selection(exporters=("need_more:to_onnx",)), [tmp_path])
