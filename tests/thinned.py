"""Parameters of which CI tries a part, and `tox -e full` all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest


def one_in(number: int, values: Iterable[object]) -> Iterator[object]:
    """The values, of which all but every so manieth are slow: for a test that shows the same in many ways."""
    for place, value in enumerate(values):
        yield pytest.param(value, marks=pytest.mark.slow) if place % number else value
