"""Runs `pytest ...`, `parity ...` and `python -c ...` in processes of their own that need not import torch again.

Importing torch, onnx, onnxruntime and the exporter takes over three seconds of processor time. The processes of
this module are forked from one that has imported them. Otherwise they are like those of a shell: with their own
working directory, arguments, environment, output and exit code.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import ModuleType

__all__ = ["Ended", "run"]

_IMPORTED = [
    "onnxruntime",
    "pytest",
    "torch.export._trace",
    "onnx_parity.exporter",
    "onnx_parity.harness.running.stages",
]


@dataclass(frozen=True)
class Ended:
    """The exit code of a process, negative if a signal ended it, what it printed, errors included, and its number."""

    code: int
    text: str
    process: int


def run(root: Path, *arguments: str, timeout: float = 180, **variables: str) -> Ended:
    """Run `pytest ...`, `parity ...` or `python -c ...` in a folder to its end, with these variables besides those of
    this process.
    """
    with tempfile.NamedTemporaryFile() as printed:
        asked = (arguments, str(root), {**os.environ, **variables}, printed.name)
        process = _context().Process(target=_run, args=asked)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    code, number = process.exitcode, process.pid
    assert code is not None and number is not None, "a process that was joined has ended"
    return Ended(code, text, number)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _run(arguments: Sequence[str], root: str, environment: Mapping[str, str], output: str) -> None:
    for descriptor, file, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_APPEND)):
        opened = os.open(file, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, root)
    sys.argv = list(arguments)
    try:
        _MAIN[arguments[0]]()
    finally:
        # A forked process ends without them.
        atexit._run_exitfuncs()


def _pytest() -> None:
    import pytest

    sys.exit(pytest.main())


def _parity() -> None:
    from onnx_parity.harness.cli import app

    app()


def _python() -> None:
    option, program, *arguments = sys.argv[1:]
    assert option == "-c"
    sys.argv = [option, *arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))


_MAIN = {"pytest": _pytest, "parity": _parity, "python": _python}
