"""A model and its example inputs, as they are written on a command line."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from onnx_parity.harness.one_line import one_line

if TYPE_CHECKING:
    import torch

__all__ = ["InputText", "SourceError", "dynamic_axes", "load_program"]

_INPUT = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<dtype>\w+)(?:<(?P<bound>\d+))?)?"
)
_DYNAMIC = re.compile(r"(?P<name>[A-Za-z_][\w.]*):(?P<axis>-?\d+)(?:=(?P<axis_name>\w+))?")


class SourceError(Exception):
    """What was written does not name a model, an input or an axis."""


@dataclass(frozen=True, slots=True)
class InputText:
    """`ids=1x16:int64<30522`: a name, sizes, a dtype, and what ints stay below."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bound: int

    @classmethod
    def parse(cls, text: str) -> InputText:
        match = _INPUT.fullmatch(text)
        if match is None:
            raise SourceError(
                f"--input {text}: write sizes, 1x3x224x224, with a name, x=1x3x224x224, a dtype, ids=1x16:int64, and "
                "what ints stay below, ids=1x16:int64<30522; scalar is a tensor without sizes"
            )
        shape = () if match["shape"] == "scalar" else tuple(int(size) for size in match["shape"].split("x"))
        return cls(match["name"] or "", shape, match["dtype"] or "float32", int(match["bound"] or 2))

    def make(self, generator: torch.Generator) -> torch.Tensor:
        """Numbers between 0 and 1, and ints from 0 on, drawn."""
        import torch

        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise SourceError(f"--input has the dtype {self.dtype}, which torch does not have: float32, int64, bool")
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(self.shape, generator=generator).to(dtype)
        return torch.randint(0, self.bound, self.shape, generator=generator).to(dtype)


def load_program(where: str, weights: Path | None = None) -> Callable[..., Any]:
    """`package.module:name`: a module, a function of tensors, or what makes one when it is called without arguments."""
    import torch

    module_name, colon, attribute = where.partition(":")
    if not colon or not attribute:
        raise SourceError(f"{where} names no model: write package.module:name, e.g. torchvision.models:resnet18")
    sys.path.insert(0, str(Path.cwd()))
    found: Any = _imported(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise SourceError(f"{module_name} has no {attribute}")
        found = getattr(found, part)
    program = found if _is_program(found) else _made(where, found)
    if not callable(program) and not isinstance(program, torch.export.ExportedProgram):
        raise SourceError(f"{where} makes a {type(program).__name__}, which cannot be exported: a torch.nn.Module can")
    if weights is not None:
        if not isinstance(program, torch.nn.Module):
            raise SourceError(f"--weights are for a torch.nn.Module, and {where} is none")
        try:
            program.load_state_dict(_state(weights))
        except RuntimeError as error:
            raise SourceError(f"--weights {weights} does not fit: {error}") from error
    result: Callable[..., Any] = program
    return result


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SourceError(f"{name} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        # It is the user's code, which may raise anything, and end as a script does.
        what = f"{type(error).__name__}: {one_line(str(error))}".removesuffix(": ")
        raise SourceError(f"{name} cannot be imported: {what}{_raised_at(error)}") from error


def _raised_at(error: BaseException) -> str:
    """The line that the import had come to, be it of a module that this one imports."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<") and "importlib" not in frame.filename]
    return f"\n  at {own[-1].filename}:{own[-1].lineno}" if len(own) > 1 else ""


def _is_program(found: Any) -> bool:
    """Whether it is to be exported as it stands: a module, or a function that takes arguments."""
    import torch

    if isinstance(found, torch.nn.Module | torch.export.ExportedProgram | torch.jit.ScriptFunction):
        return True
    return inspect.isroutine(found) and _needs(found) != []


def _made(where: str, found: Any) -> Any:
    if not callable(found):
        raise SourceError(f"{where} is a {type(found).__name__}, which cannot be exported: a torch.nn.Module can")
    needed = _needs(found)
    if needed:
        raise SourceError(
            f"{where} cannot be made without {', '.join(needed)}: name a function without parameters that makes one"
        )
    return found()


def _needs(function: Callable[..., Any]) -> list[str] | None:
    """The parameters that must be given; None where they cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]


def _state(path: Path) -> dict[str, torch.Tensor]:
    import torch

    if not path.is_file():
        raise SourceError(f"--weights {path}: there is no such file")
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise SourceError("--weights in safetensors are read by safetensors: pip install safetensors") from error
        loaded: dict[str, torch.Tensor] = load_file(path)
        return loaded
    try:
        state: dict[str, torch.Tensor] = torch.load(path, weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise SourceError(f"--weights {path} is no state dict that torch.save wrote: {_first_line(error)}") from error
    return state


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0]


def dynamic_axes(texts: Sequence[str]) -> dict[str, dict[int, str]]:
    """`x:0=batch`, or `x:0` for an axis without a name of its own."""
    axes: dict[str, dict[int, str]] = {}
    for text in texts:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise SourceError(f"--dynamic {text}: write the input, the axis and its name, x:0=batch, or x:0")
        axis = int(match["axis"])
        axes.setdefault(match["name"], {})[axis] = match["axis_name"] or f"{match['name']}_dim_{axis}"
    return axes
