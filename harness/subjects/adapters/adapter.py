"""What the files of this folder have in common: whether a runtime is installed, what it claims, what it refuses.

Nothing is imported before a model is loaded, which happens in the process that runs cells: a library that crashes when
it is imported, or starts threads, does not affect the process that collects them.

What a runtime is given and what it returns is not adapted: it gets the inputs as they are, and other dtypes, shapes or
numbers of outputs than the model's are its failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from onnx_parity.exporter.arrays import Fed
from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.subjects.delivered import Delivered, inputs_of
from onnx_parity.harness.subjects.runtime_interface import NoKernelError, NotUsableError, Session

#: Runs a model that has been loaded: from its inputs by their names, in the order of the model, to its outputs.
Run = Callable[[Mapping[str, Fed]], Sequence[object]]

#: Characters that are kept of an error, some of which contain a whole graph.
_LONGEST = 400

#: What most runtimes claim. The parts of complex numbers are float32 in a model.
USUAL_DTYPES = frozenset(
    {Dtype.FLOAT32, Dtype.INT8, Dtype.INT32, Dtype.INT64, Dtype.UINT8, Dtype.BOOL, Dtype.COMPLEX64}
)


@dataclass(frozen=True)
class Adapter:
    """A runtime of another project."""

    name: str
    #: The distributions that it consists of, whose versions are recorded, each with the module that it installs.
    modules: Mapping[str, str]
    #: What the project itself says that it supports.
    opsets: tuple[int, ...]
    dtypes: frozenset[Dtype]
    #: Loads a model.
    open: Callable[[bytes | Path], Run]
    #: Whether an error says that the runtime does not have an operator, or not for these types.
    is_refusal: Callable[[Exception], bool]
    #: Where its errors are reported.
    tracker: str
    #: What it needs besides its package: why it cannot be used here, or nothing.
    needs: Callable[[], str] = lambda: ""

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(self.modules)

    def missing(self, device: Device) -> str:
        if device is not Device.CPU:
            return f"{self.name} is run on the CPU only"
        lacking = [package for package, module in self.modules.items() if not _is_installed(module)]
        if lacking:
            are = "is" if len(lacking) == 1 else "are"
            return f"{' and '.join(lacking)} {are} not installed: pip install {' '.join(lacking)}"
        return self.needs()

    def load(self, model: bytes | Path, device: Device) -> Session:
        names = tuple(value.name for value in inputs_of(Delivered(model).proto.graph))
        try:
            return _Session(self.open(model), names, self.is_refusal)
        except ImportError as error:
            raise NotUsableError(f"{self.name} cannot be imported: {one_line(str(error))}") from error
        except Exception as error:
            raise _told(error, self.is_refusal) from error


@dataclass(frozen=True)
class _Session:
    """A loaded model, of which the runtime may refuse an operator only when it runs it."""

    run_model: Run
    names: tuple[str, ...]
    is_refusal: Callable[[Exception], bool]

    def run(self, feeds: Mapping[str, Fed]) -> Sequence[object]:
        try:
            return self.run_model({name: feeds[name] for name in self.names})
        except Exception as error:
            raise _told(error, self.is_refusal) from error


def _is_installed(module: str) -> bool:
    """Whether a module is there, which is not imported. Its parent is, which may be a folder for several packages."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class RuntimeFailedError(Exception):
    """The runtime failed. The message is its own error in one line."""


def _told(error: Exception, is_refusal: Callable[[Exception], bool]) -> Exception:
    """The error for the harness. Many runtimes say in the first line where it was raised, and in others what it is."""
    words = " ".join(str(error).partition("Stack backtrace:")[0].split())
    said = words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..."
    if isinstance(error, NotImplementedError) or is_refusal(error):
        return NoKernelError(said or type(error).__name__)
    return RuntimeFailedError(f"{type(error).__name__}: {said}")


def saying(*words: str) -> Callable[[Exception], bool]:
    """Whether the message of an error contains one of these words."""
    return lambda error: any(each in str(error) for each in words)
