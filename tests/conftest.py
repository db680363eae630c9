"""Fixtures that tests of several folders use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from onnx_parity.exporter.registry import lowerings as registry
from onnx_parity.exporter.registry import rules


@pytest.fixture
def registry_as_it_was() -> Iterator[None]:
    """Removes what a test registers."""
    # All of this package are registered before: those of a file that a test imports first would be removed for good.
    tuple(rules.all_rules())
    before = {name: dict(functions) for name, functions in registry._lowerings.items()}
    users, listed = set(registry._from_users), list(rules._rules)
    yield
    rules._rules[:] = listed
    registry._lowerings.clear()
    registry._lowerings.update(before)
    registry._from_users.clear()
    registry._from_users.update(users)


@pytest.fixture(scope="module")
def custom_operator() -> Iterator[None]:
    """Registers the documentation's `custom_ops::foo_forward` in torch."""
    with torch.library._scoped_library("custom_ops", "DEF") as library:
        library.define("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor")
        library.impl("foo_forward", lambda a, b, c, d: a * c + b * d, "CompositeExplicitAutograd")
        torch.library.register_fake("custom_ops::foo_forward", lambda a, b, c, d: torch.empty_like(a), lib=library)
        yield
