"""The limits of a cell, from the options, and the part of standard error that is kept of a dead process."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_parity.harness.axes import AxisError
from onnx_parity.harness.record import Stage
from onnx_parity.harness.running.last_words import error_in, last_words
from onnx_parity.harness.running.limits import (
    STAGE_SECONDS,
    Limits,
    half_of_the_machine,
    own_resident_mib,
    parse_limits,
    resident_mib,
)


def test_limits_are_given_for_all_stages_and_for_single_ones() -> None:
    limits = parse_limits("60, export=300,run=0", "2048")
    assert limits == Limits(60.0, 2048, {Stage.EXPORT: 300.0, Stage.RUN: 0.0})
    assert [limits.seconds(stage) for stage in (Stage.EXPORT, Stage.RUN, Stage.LOAD)] == [300.0, 0.0, 60.0]


def test_without_options_there_are_limits() -> None:
    limits = parse_limits("", "")
    assert limits == Limits(STAGE_SECONDS, half_of_the_machine())
    assert 100 < limits.memory_mib < 1 << 24
    assert parse_limits("", "0").memory_mib == 0


@pytest.mark.parametrize(
    ("seconds", "memory", "message"),
    [
        ("exprot=3", "", "--stage-seconds exprot=3: there is no stage 'exprot', only build, reference, export, check"),
        ("soon", "", "--stage-seconds soon: 'soon' is not a number."),
        ("export=", "", "--stage-seconds export=: '' is not a number."),
        ("-1", "", "--stage-seconds -1: -1 is not a limit. Give a positive number, or 0 for none."),
        ("nan", "", "--stage-seconds nan: nan is not a limit. Give a positive number, or 0 for none."),
        ("", "2G", "--memory-limit 2G: '2G' is not a number."),
    ],
)
def test_what_is_no_limit_is_refused(seconds: str, memory: str, message: str) -> None:
    with pytest.raises(AxisError) as error:
        parse_limits(seconds, memory)
    assert str(error.value).startswith(message)


def test_the_memory_of_a_process_is_known_and_of_none_is_0() -> None:
    assert own_resident_mib() > 10
    assert resident_mib(0) == 0


def test_last_words_are_those_before_the_stack_and_its_innermost_frames(tmp_path: Path) -> None:
    path = tmp_path / "stderr.txt"
    assert last_words(path) == []
    said = [f"word {number}" for number in range(20)]
    frames = [f'  File "a.py", line {number} in f' for number in range(40)]
    path.write_text("\n".join([*said, "Fatal Python error: Aborted", "", *frames, "", "Extension modules: numpy"]))
    words = last_words(path)
    assert words[:13] == [*said[-12:], "Fatal Python error: Aborted"]
    assert words[13:] == [*frames[:15], "  ... 25 frames more"]
    path.write_text("only\nwords\n")
    assert last_words(path) == ["only", "words"]


def test_error_is_the_first_line_after_the_traceback() -> None:
    frame = 'Traceback (most recent call last):\n  File "a.py", line 1\n    f()\n'
    stderr = f"warned\n{frame}mod.Error: no f\nDo this:\n  that\n"
    assert error_in(stderr) == "mod.Error: no f"
    assert error_in("Segmentation fault\n") == "Segmentation fault"
    assert error_in("") == ""
