"""Progress: when it is shown, what it says, that it is erased, and that pipes and captured output get none of it."""

from __future__ import annotations

import io
import threading
import time
from types import SimpleNamespace

import pytest
import torch

import onnx_parity
from onnx_parity.exporter import progress as module
from onnx_parity.exporter.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    # pytest puts its own stream into `sys` between a fixture and its test.
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_EVERY", 0.01)
    return terminal


def wait_for(terminal: Terminal, text: str) -> None:
    until = time.monotonic() + 10
    while text not in terminal.getvalue():
        assert time.monotonic() < until, terminal.getvalue()
        time.sleep(0.005)


def test_a_long_step_is_shown_and_erased(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)
    with progress("recording the program"):
        wait_for(terminal, "\ronnx-parity: recording the program, 0 s")
        with progress("computing a value"):
            wait_for(terminal, "onnx-parity: computing a value, 0 s")
        terminal.truncate(0)
        wait_for(terminal, "recording the program")
    *_, erased, nothing = terminal.getvalue().split("\r")
    assert (erased.strip(), nothing) == ("", "")
    assert "onnx-parity-progress" not in [thread.name for thread in threading.enumerate()]


def test_a_short_export_shows_nothing(terminal: Terminal) -> None:
    onnx_parity.export(torch.nn.ReLU(), torch.randn(2), verify=True)
    assert terminal.getvalue() == ""


def test_export_and_verify_name_their_steps(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)

    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return x * 2

    program = onnx_parity.export(slow, torch.randn(2), verify=True)
    assert "recording the program" in terminal.getvalue()
    assert "verifying the model for the example inputs" in terminal.getvalue()
    terminal.truncate(0)
    program.verify()
    assert "verifying the model for" in terminal.getvalue()


@pytest.mark.parametrize("why", ["a pipe", "a dumb terminal", "no stream"])
def test_nobody_is_there_to_read_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)
    if why == "a pipe":
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    elif why == "a dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    else:
        monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=None))
    with progress("recording the program"):
        assert "onnx-parity-progress" not in [thread.name for thread in threading.enumerate()]
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_a_notebook_shows_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    monkeypatch.setattr(Terminal, "__module__", "ipykernel.iostream")
    monkeypatch.setattr(module, "_AFTER", 0.0)
    with progress("recording the program"):
        wait_for(terminal, "recording the program, 0 s")


def test_an_error_and_a_closed_terminal_end_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)

    def fail() -> None:
        with progress("recording the program"):
            wait_for(terminal, "recording")
            terminal.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "onnx-parity-progress" not in [thread.name for thread in threading.enumerate()]


def test_of_two_threads_one_is_shown(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)

    def other() -> None:
        with progress("the other"):
            time.sleep(0.05)

    with progress("the first"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        wait_for(terminal, "the first")
    assert "the other" not in terminal.getvalue()
