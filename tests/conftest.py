"""Fixtures that tests of several folders use."""

from __future__ import annotations

import faulthandler
from collections.abc import Generator, Iterator

import pytest
import torch
from _pytest.faulthandler import fault_handler_stderr_fd_key

from onnx_parity.exporter.registry import lowerings as registry
from onnx_parity.exporter.registry import rules

#: The seconds after which a test counts as one that hangs.
HANGS_AFTER = 1200


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that hangs, with the stacks of its threads: xdist goes on, and names the test.

    pytest's `faulthandler_timeout` would start a thread for each cell too, and those have limits of their own.
    """
    if not isinstance(item, pytest.Function):
        return (yield)
    # What a test writes to its own standard error is captured, and would be lost with the process.
    faulthandler.dump_traceback_later(HANGS_AFTER, file=item.config.stash[fault_handler_stderr_fd_key], exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


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
