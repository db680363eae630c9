"""Imports that wait: nobody can tell, but by the clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

_EXPORTS = """
import sys, torch, exporter

x = torch.ones(2, 3)
for module in (torch.nn.ELU(), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.nn.LSTM(3, 4)):
    exporter.export(module, (x,))
assert "sympy.core" not in sys.modules and "torch.fx.experimental.symbolic_shapes" not in sys.modules
exporter.export(torch.nn.ELU(), (x,), dynamic_axes={"input": [0]})
assert "sympy.core" in sys.modules
"""

_FROM_OUTSIDE = """
import exporter
import sympy
assert sympy.__name__ == "sympy" and "sympy.core" not in __import__("sys").modules
assert sympy.Integer(1) + 1 == sympy.sympify(2) and sympy.__version__
import importlib, types
assert type(sympy) is types.ModuleType and type(sympy.__loader__).__module__.startswith("_frozen_importlib")
assert importlib.reload(sympy) is sympy
try:
    sympy.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
"""

_FROM_INSIDE = """
import sys, exporter
import sympy.core.numbers
import sympy
assert sympy.core.numbers is sys.modules["sympy.core.numbers"] and sympy.Integer is sympy.core.numbers.Integer
assert sympy.core.__spec__.name == "sympy.core" and sympy.core.__spec__.loader is sympy.core.__loader__
"""

_BY_THREADS = """
import threading, exporter, sympy
results, barrier = [], threading.Barrier(8)
def use():
    barrier.wait()
    results.append(sympy.Symbol("n") + sympy.Integer(1))
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(results) == 8 and len(set(results)) == 1
"""

_BEFORE = """
import sympy, exporter, onnx_ir
assert onnx_ir.SymbolicDim("a + 1") + 1 == onnx_ir.SymbolicDim("a + 2")
assert sympy.Integer(1) == 1
"""


@pytest.mark.parametrize("program", [_EXPORTS, _FROM_OUTSIDE, _FROM_INSIDE, _BY_THREADS, _BEFORE])
def test_sympy_is_imported_when_it_is_used(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=_ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_module_that_fails_says_so_whenever_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text("before = 1\nraise ValueError('no')\n")
    program = """
from exporter.deferred import defer
defer("failing", "absent")
import failing
for _ in range(2):
    try:
        failing.after
    except ValueError as error:
        print(error)
try:
    import absent
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{_ROOT}:{tmp_path}"},
    )
    assert done.stdout.splitlines() == ["no", "no", "No module named 'absent'"]
