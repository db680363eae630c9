"""The syntax of a model, its example inputs and its dynamic axes on the command line of `parity export`."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from onnx_parity.harness.one_line import error_line

if TYPE_CHECKING:
    import torch

__all__ = ["InputText", "SourceError", "check_number_of_inputs", "dynamic_axes", "load_program", "read_weights"]

_INPUT = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<dtype>\w+)(?:<(?P<bound>\d+))?)?"
)
_DYNAMIC = re.compile(r"(?P<name>[A-Za-z_][\w.]*):(?P<axis>-?\d+)(?:=(?P<axis_name>\w+))?")


#: The maximum number of digits on the command line. Longer numbers do not fit into an int64.
_MOST_DIGITS = 18


class SourceError(Exception):
    """A model, an input or an axis that cannot be used. The message describes what to write instead."""


@dataclass(frozen=True, slots=True)
class InputText:
    """`ids=1x16:int64<30522`: a name, sizes, a dtype, and the bound that integers stay below."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> InputText:
        match = _INPUT.fullmatch(text)
        if match is None:
            raise SourceError(
                f"--input {_shorten(text)} cannot be read. Write the sizes, 1x3x224x224, and where needed a name, "
                "x=1x3x224x224, a dtype, ids=1x16:int64, and a bound for integers, ids=1x16:int64<30522. "
                "Write scalar for a tensor without axes."
            )
        sizes = [] if match["shape"] == "scalar" else match["shape"].split("x")
        bound = match["bound"] or "2"
        if any(len(number) > _MOST_DIGITS for number in (*sizes, bound)):
            raise SourceError(f"--input {_shorten(text)}: no size and no bound has more than {_MOST_DIGITS} digits.")
        if not int(bound):
            raise SourceError(f"--input {text}: no integer is from 0 up to and below 0. Write a bound of 1 or more.")
        return cls(match["name"] or "", tuple(map(int, sizes)), match["dtype"] or "float32", int(bound))

    def make(self, generator: torch.Generator, *, normal: bool = False) -> torch.Tensor:
        """A tensor of random numbers: between 0 and 1 or `normal`, or integers from 0 up to the bound."""
        import torch

        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise SourceError(f"--input: torch has no dtype {self.dtype}. Write for example float32, int64 or bool.")
        self._refuse_too_large(dtype.itemsize)
        try:
            if dtype.is_floating_point or dtype.is_complex:
                draw = torch.randn if normal else torch.rand
                return draw(self.shape, generator=generator).to(dtype)
            if dtype is not torch.bool and self.bound - 1 > torch.iinfo(dtype).max:
                raise SourceError(f"--input: {dtype} has no number up to {self.bound - 1:,}. Write a lower bound.")
            return torch.randint(0, self.bound, self.shape, generator=generator).to(dtype)
        except (RuntimeError, TypeError) as error:
            raise SourceError(f"--input: torch cannot make such a tensor of {dtype}: {_first_line(error)}.") from error

    def _refuse_too_large(self, bytes_each: int) -> None:
        # Random numbers are created as float32 or int64.
        size = math.prod(self.shape) * max(bytes_each, 8)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > memory:
            shape = "x".join(map(str, self.shape))
            raise SourceError(
                f"--input {_shorten(shape)}: a tensor of these sizes needs {size:,} bytes, and this machine has "
                f"{memory:,}. Write smaller sizes."
            )


def load_program(where: str, weights: Path | None = None) -> Callable[..., Any]:
    """The model that `package.module:name` names, or `folder/file.py:name`: a module, a function of tensors, or the
    result of a call of it.
    """
    import torch

    module_name, colon, attribute = where.rpartition(":")
    is_file = module_name.lower().endswith(".py")
    if not colon or not attribute or (":" in module_name and not is_file):
        raise SourceError(
            f"{where} does not name a model. Write package.module:name, for example torchvision.models:resnet18, "
            "or file.py:name."
        )
    found: Any = _import_file(Path(module_name)) if is_file else _import_here(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"Did you mean {near[0]}?" if near else "Check the spelling of the name."
            raise SourceError(f"{where} cannot be exported: {module_name} has no {attribute}. {hint}")
        found = getattr(found, part)
    program = found if _is_program(found) else _make_program(where, found)
    if not callable(program) and not isinstance(program, torch.export.ExportedProgram):
        raise SourceError(
            f"{where} creates an object of type {type(program).__name__}, which cannot be exported. "
            "Name a torch.nn.Module or a function."
        )
    if weights is not None:
        if not isinstance(program, torch.nn.Module):
            raise SourceError(
                f"--weights {weights} cannot be loaded: {where} is not a torch.nn.Module. Leave out --weights."
            )
        state = read_weights(weights)
        try:
            program.load_state_dict(state)
        except (RuntimeError, TypeError, AttributeError, ValueError) as error:
            raise SourceError(f"--weights {weights} do not fit the model: {error}") from error
    result: Callable[..., Any] = program
    return result


def check_number_of_inputs(where: str, program: Callable[..., Any], given: int) -> None:
    """Refuse inputs that the program cannot be called with, because there are too few or too many."""
    import torch

    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    by_keyword = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if by_keyword:
        raise SourceError(
            f"{where} cannot be called without the keyword {', '.join(by_keyword)}, and inputs are given by position. "
            "Name a function that passes it."
        )
    taken = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names = ", ".join(repr(each.name) for each in taken)
    number = f"{given} --input {'was' if given == 1 else 'were'} given" if given else "no --input was given"
    if given < len(taken) and taken[given].default is inspect.Parameter.empty:
        raise SourceError(
            f"{where} takes {names}, and {number}. "
            f"Write one for each with its sizes, for example --input {taken[given].name}=1x3x224x224."
        )
    if given > len(taken) and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        raise SourceError(f"{where} takes {names or 'no inputs'}, and {number}. Leave out the others.")


def _import_here(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return _import_module(name)


def _import_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise SourceError(f"{file} cannot be imported: there is no such file.")
    sys.path.insert(0, str(file.parent.resolve()))
    module = _import_module(file.stem)
    if Path(module.__file__ or "").resolve() != file.resolve():
        raise SourceError(
            f"{file} cannot be imported: Python has another module of the name {file.stem}, "
            f"{module.__file__ or 'which is built in'}. Rename the file."
        )
    return module


def _import_module(name: str) -> ModuleType:
    try:
        try:
            return importlib.import_module(name)
        except RuntimeError as error:
            if "operator torchvision::" not in str(error):
                raise
            # Its operators are compiled for another build of torch than this one. Most of its models need none.
            importlib.import_module("onnx_parity.model_zoo.torchvision_import")
            return importlib.import_module(name)
    except ImportError as error:
        if "relative import" in str(error):
            raise SourceError(
                f"{name} cannot be imported: {error}. It is in a package: write package.module:name, in the folder "
                "that contains the package."
            ) from error
        raise SourceError(
            f"{name} cannot be imported: {error}. Install it, or run this in the folder that contains it."
        ) from error
    except (Exception, SystemExit) as error:
        # The user's code may raise any exception, and may end the process as a script does.
        raise SourceError(f"{name} cannot be imported: {_what(error)}{_raised_at(error)}") from error


def _what(error: BaseException) -> str:
    return error_line(error).removesuffix(": ")


def _raised_at(error: BaseException) -> str:
    """The line at which the import failed, in this module or in one that it imports."""
    from onnx_parity.harness.cases import watching

    frames = traceback.extract_tb(error.__traceback__)
    # `watching.py` stands between a module and what it imports.
    passed_through = ("<", watching.__file__)
    own = [
        frame for frame in frames if not frame.filename.startswith(passed_through) and "importlib" not in frame.filename
    ]
    return f"\n  at {own[-1].filename}:{own[-1].lineno}" if len(own) > 1 else ""


def _is_program(found: Any) -> bool:
    """Whether it is exported without a call: a module, or a function that has parameters."""
    import torch

    if isinstance(found, torch.nn.Module | torch.export.ExportedProgram | torch.jit.ScriptFunction):
        return True
    return inspect.isroutine(found) and _needs(found) != []


def _make_program(where: str, found: Any) -> Any:
    if not callable(found):
        raise SourceError(
            f"{where} is an object of type {type(found).__name__}, which cannot be exported. "
            "Name a torch.nn.Module or a function."
        )
    needed = _needs(found)
    if needed:
        raise SourceError(
            f"{where} cannot be called without {', '.join(needed)}. "
            "Name a function without parameters that creates the model."
        )
    try:
        return found()
    except (Exception, SystemExit) as error:
        # The user's code may raise any exception, as in an import.
        raise SourceError(f"{where} cannot be created: {_what(error)}{_raised_at(error)}") from error


def _needs(function: Callable[..., Any]) -> list[str] | None:
    """The parameters without a default; None if the signature is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights in a file by their names. Raises SourceError for any invalid content."""
    import torch

    if not path.is_file():
        raise SourceError(f"--weights {path} cannot be loaded: there is no such file.")
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise SourceError(
                f"--weights {path} cannot be loaded without the package safetensors: pip install safetensors"
            ) from error
        load: Callable[[Path], object] = load_file
        kind = "a safetensors file"
    else:
        load = functools.partial(torch.load, weights_only=True, map_location="cpu")
        kind = "a state dict that torch.save wrote"
    try:
        with warnings.catch_warnings():
            # What torch finds unusual in a file is no reason to doubt the weights that it reads there.
            warnings.simplefilter("ignore")
            state = load(path)
    except OSError:
        raise
    except Exception as error:
        # The content may be arbitrary, and unpickling it may raise any exception.
        raise SourceError(f"--weights {path} cannot be loaded: it is not {kind} ({_first_line(error)})") from error
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise SourceError(f"--weights {path} cannot be loaded: it has no weights by their names, but {_kind(state)}")
    return dict(state)


def _kind(state: object) -> str:
    return "a dict of other keys" if isinstance(state, Mapping) else f"an object of type {type(state).__name__}"


def _shorten(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text):,} characters)"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0]


def dynamic_axes(texts: Sequence[str]) -> dict[str, dict[int, str]]:
    """The dynamic axes of each input, from texts such as `x:0=batch`. The axis of `x:0` is named after its input."""
    axes: dict[str, dict[int, str]] = {}
    for text in texts:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise SourceError(
                f"--dynamic {_shorten(text)} cannot be read. Write the input, the axis and a name, x:0=batch, "
                "or only x:0."
            )
        if len(match["axis"]) > _MOST_DIGITS:
            raise SourceError(f"--dynamic {_shorten(text)}: no axis has more than {_MOST_DIGITS} digits.")
        axis = int(match["axis"])
        axes.setdefault(match["name"], {})[axis] = match["axis_name"] or f"{match['name']}_dim_{axis}"
    return axes
