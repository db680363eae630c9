"""Messages of other programs in one line."""

from __future__ import annotations

import pytest

from onnx_parity.harness.one_line import error_line, one_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n\x1b[31m  first \x1b[0m\nsecond", "first"),
        (
            "1 operator cannot be exported:\n\n  - mine::cubed\n  - mine::scaled",
            "1 operator cannot be exported: - mine::cubed",
        ),
        ("it ends here:\n", "it ends here:"),
        ("", ""),
    ],
)
def test_a_line_says_what_it_announces(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_an_error_has_its_class() -> None:
    assert error_line(ValueError("bad\nworse")) == "ValueError: bad"
