"""How the line of a frame is spelled, and what a failed recording leaves in the frames of its error."""

import weakref

import pytest
import torch

import onnx_parity
from onnx_parity.exporter.torch_inside.frames import clear_locals

_PROGRAM = """
def fails(value, kept):
    def inner():
        if value is not None:
            raise ValueError("no")
    kept.append(inner)
    return inner()
"""


class _Value:
    """Something that a weak reference can refer to."""


@pytest.mark.parametrize(("module", "is_left"), [("onnx_parity.exporter.some_module", False), ("of_a_user", True)])
def test_what_inner_functions_close_over_is_let_go_of_in_this_package_only(module: str, is_left: bool) -> None:
    names: dict[str, object] = {"__name__": module}
    exec(_PROGRAM, names)  # As if the function stood in that module.
    fails = names["fails"]
    assert callable(fails)
    value = _Value()
    kept: list[object] = []
    watched = weakref.ref(value)
    with pytest.raises(ValueError, match="no") as raised:
        fails(value, kept)
    del value
    clear_locals(raised.value, None)
    assert (watched() is not None) == is_left
    assert [each.name for each in raised.traceback[1:]] == ["fails", "inner"]


def test_an_assertion_is_spelled_as_its_condition() -> None:
    def increasing_or_not(x: torch.Tensor) -> torch.Tensor:
        steps = x.diff() > 0
        assert steps.all() or (~steps).all(), "neither rises nor falls"
        return x * 2

    with pytest.warns(onnx_parity.TracerWarning):
        program = onnx_parity.export(increasing_or_not, (torch.arange(4.0),))
    assert [each.condition for each in program.assumptions] == ["steps.all() or (~steps).all()"]
