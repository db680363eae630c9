"""The cause of a failure is found, for planted faults of each kind. `python -m benchmarks.faults` plants more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness import blamed


@pytest.mark.parametrize("kind", blamed.KINDS)
def test_the_planted_cause_is_blamed(kind: object) -> None:
    assert callable(kind)
    wrong = [words for number in range(6) if (words := kind(np.random.default_rng(number)).told_wrongly())]
    assert wrong == []
