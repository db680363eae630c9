"""`python -m tests.refusals`: the words of errors that it counts, and the assertions that contain them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.refusals import Refusal, refusals_of

MODULE = """
LATE = "it is too late for that"

def lower(g, x):
    if x is None:
        raise ValueError(f"{x!r} is nothing: give something, {list}")
    if x < 0:
        g.unsupported("what is negative" if g else "what is not positive")
    if x == 1:
        raise _Private("another way of going on")
    text = f"{x} is " + "larger than two"
    if x > 2:
        raise ValueError(text)
    try:
        return g.op(x)
    except ValueError as error:
        raise ValueError(f"{error}: {x}") from error
    finally:
        raise ValueError(LATE)
"""


def test_words_of_errors_are_found() -> None:
    tree = ast.parse(MODULE)
    constants = {"LATE": ast.Constant("it is too late for that")}
    found = refusals_of(tree, "module.py", {"ValueError"}, constants)
    assert [(each.line, each.words) for each in found] == [
        (6, (" is nothing: give something, ",)),
        (8, ("what is negative",)),
        (8, ("what is not positive",)),
        (13, (" is ", "larger than two")),
        (19, ("it is too late for that",)),
    ]


TESTS = """
import pytest

MESSAGE = "the weight 'a' is missing: give it by name"

def refuse():
    raise ValueError(MESSAGE)

def test_match():
    with pytest.raises(ValueError, match="is missing: give it"):
        refuse()

def test_no_words():
    with pytest.raises(ValueError):
        refuse()

def test_words_that_are_filled_in():
    with pytest.raises(ValueError) as caught:
        refuse()
    assert "'a'" in str(caught.value)

def test_words_that_are_not_there():
    with pytest.raises(ValueError) as caught:
        refuse()
    assert "is missing: give it by number" not in str(caught.value)

@pytest.mark.parametrize("words", ["the weight {name!r} is missing"])
def test_begins(words):
    with pytest.raises(ValueError) as caught:
        refuse()
    assert (
        str(caught.value).startswith(words.format(name="a"))
    )

def test_whole():
    with pytest.raises(ValueError) as caught:
        refuse()
    assert str(caught.value) == MESSAGE and caught.type is ValueError
"""

CONFTEST = """
from tests.refusals import Refusal, Witness

witness = Witness()

def pytest_configure(config):
    config.pluginmanager.register(witness)

def pytest_runtest_teardown(item):
    refusal = Refusal("module.py", 1, ("the weight ", " is missing: give it by name"))
    print(item.function.__name__, "is", "shown" if witness.shows(refusal) else "unshown")
    witness.asserted.clear()
"""


def test_a_refusal_is_shown_by_words_that_are_asserted(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-qs", "-n", "0", "-o", "enable_assertion_pass_hook=true", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert re.findall(r"(\w+) is (shown|unshown)", run.stdout) == [
        ("test_match", "shown"),
        ("test_no_words", "unshown"),
        ("test_words_that_are_filled_in", "unshown"),
        ("test_words_that_are_not_there", "unshown"),
        ("test_begins", "shown"),
        ("test_whole", "shown"),
    ]


def test_words_in_another_order_are_another_message() -> None:
    refusal = Refusal("module.py", 1, ("the first axis of ", " is not the second"))
    message = "the first axis of x is not the second"
    assert refusal.is_shown_by(message, (0, len(message)))
    assert not refusal.is_shown_by(message, (0, 10))
    assert not refusal.is_shown_by("x is not the second: the first axis of y", (0, 40))
