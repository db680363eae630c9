"""Saved objects: what counts as a value that is new since then."""

from __future__ import annotations

from onnx_parity.exporter.program_state.python_state import PythonState
from onnx_parity.exporter.program_state.saved_objects import slots_of


class Plain:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first, self.second = [1], [2]


class Computing(Plain):
    """As the classes of pluggy that hold a part of the plug-ins do."""

    __slots__ = ()

    @property
    def second(self) -> list[int]:
        return [2]

    @second.setter
    def second(self, value: list[int]) -> None:
        raise AssertionError(f"{value} is written")

    def __init__(self) -> None:
        self.first = [1]


def test_a_property_with_the_name_of_a_slot_holds_nothing() -> None:
    assert slots_of(Plain) == ["first", "second"]
    assert slots_of(Computing) == ["first"]


def test_what_a_property_makes_anew_is_no_new_value_and_is_not_restored() -> None:
    computing, plain = Computing(), Plain()
    state = PythonState([computing, plain])
    assert not state.holds_new(lambda value: isinstance(value, list))
    plain.second = [3]
    assert state.holds_new(lambda value: isinstance(value, list))
    state.restore()
    assert plain.second == [2]
