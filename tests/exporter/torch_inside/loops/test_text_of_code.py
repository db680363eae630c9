"""The text of a function is found by its code, and gives the same code when it is compiled again."""

from __future__ import annotations

import argparse
import importlib.util
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
import torch.nn.functional
import torch.optim.lr_scheduler

from onnx_parity.exporter.torch_inside.loops.text_of_code import compiled, text_of


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module and of its classes that are written down in its own file."""
    for holder in [module, *(each for each in vars(module).values() if isinstance(each, type))]:
        for each in vars(holder).values():
            if isinstance(each, FunctionType) and each.__code__.co_filename == module.__file__:
                yield each


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [argparse, torch.nn.functional, torch.optim.lr_scheduler], ids=lambda each: each.__name__
)
def test_every_function_of_a_large_file_is_found(module: ModuleType) -> None:
    functions = list(functions_of(module))
    assert len(functions) > 40
    assert [each.__qualname__ for each in functions if text_of(each.__code__) is None] == []


_FILE = """
from __future__ import annotations
import math; here = lambda x: math.sqrt(x)
try:
    import numpy.linalg
except ImportError:
    numpy = None
if True:
    import os.path as paths
class Reads:
    @staticmethod
    def read(name: Missing) -> Missing:
        return paths.join(math.pi, numpy.asarray(name))
def outer(x):
    import json
    def inner(y):
        return json.dumps(x) + math.floor(y)
    return inner
def two(x): return [row for row in (lambda y: y, lambda z: z)]
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "written.py"
    path.write_text(_FILE)
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_imports_of_branches_and_statements_in_one_line(module: ModuleType) -> None:
    inner = module.outer(1).__code__
    codes = [module.here.__code__, module.Reads.read.__code__, module.outer.__code__, module.two.__code__, inner]
    for code in codes:
        text = text_of(code)
        assert text is not None, code.co_qualname
        assert compiled(text.tree, code) == code


def test_of_two_in_one_line_none_is_found(module: ModuleType) -> None:
    lambdas = [each for each in module.two.__code__.co_consts if isinstance(each, CodeType)]
    assert [text_of(each) for each in lambdas if each.co_name == "<lambda>"] == [None, None]


def test_code_that_is_not_that_of_its_file(module: ModuleType, tmp_path: Path) -> None:
    code = module.outer.__code__
    assert text_of(code.replace(co_firstlineno=1)) is None
    assert text_of(code.replace(co_filename=str(tmp_path / "missing.py"))) is None
    assert text_of(code.replace(co_consts=(*code.co_consts, 1))) is None
    (tmp_path / "broken.py").write_text(textwrap.dedent(_FILE) + "\ndef (")
    assert text_of(code.replace(co_filename=str(tmp_path / "broken.py"))) is None
