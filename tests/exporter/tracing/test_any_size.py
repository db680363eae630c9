"""Programs drawn from statements in which sizes, layouts, writes, branches and dtypes meet: docs/search.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_parity.harness.any_size.programs import difference, drawn


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(each, marks=pytest.mark.slow) for each in range(10, 600))])
def test_a_model_is_right_for_every_size_that_it_allows(seed: int, tmp_path: Path) -> None:
    program = drawn(seed)
    found = difference(program, tmp_path)
    assert isinstance(found, int), f"{program.lines}: {found.what}"
