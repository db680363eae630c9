"""The process that exports models of libraries, and says what became of each.

python -m benchmarks.models_of_libraries.worker DESCRIPTOR
"""

from __future__ import annotations

import enum
import gc
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

import msgspec

from benchmarks.subjects import OPSET
from onnx_parity.harness.axes import ONNXRUNTIME, Capture, Device, Dtype, Shapes
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.matrix.cells import Cell
from onnx_parity.harness.record import Stage, Status
from onnx_parity.harness.running.channel import to_owner
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.subjects.exporter_interface import Request
from onnx_parity.harness.subjects.exporters import EXPORTERS
from onnx_parity.harness.zoo import ListedModel, Source
from onnx_parity.model_zoo import libraries

__all__ = ["Asked", "Fate", "Figures", "models_of"]

#: The quickest of so many exports counts, because other work on the machine only adds time.
WARM = 3
#: Seconds of exports of one exporter after which it is not measured again.
ENOUGH = 4.0
#: How many times as long the quicker of two exporters takes, at most, for the two to be measured more often.
CLOSE = 1.3
MOST_WARM = 12


class Fate(enum.StrEnum):
    RIGHT = "right"
    #: onnxruntime does not run it, or gives other results than PyTorch for the example, other values or other sizes.
    WRONG = "wrong"
    REFUSED = "refused"
    #: PyTorch itself does not run the model here, or two runs of it differ.
    NOT_RUN = "not run by PyTorch"
    CRASHED = "crashed or too slow"


class Asked(msgspec.Struct, frozen=True):
    """A model, as `library[name]`, and the exporters that it is exported with."""

    model: str
    exporters: Sequence[str]


class Figures(msgspec.Struct, frozen=True):
    """What became of one export of a model: processor seconds and nodes, where there is a file."""

    model: str
    shapes: str
    exporter: str
    fate: Fate
    reason: str
    seconds: float | None = None
    nodes: int = 0


@cache
def models_of() -> dict[str, ListedModel]:
    """All models of the libraries that are installed, by their names."""
    found: dict[str, ListedModel] = {}
    for file in iter_modules(libraries.__path__):
        for name, source in vars(import_module(f"{libraries.__name__}.{file.name}")).items():
            if isinstance(source, Source) and find_spec(source.package) is not None:
                labels = {f"{name}[{model}]": model for model in source.names()}
                found |= {label: ListedModel(source, name, label, {}, model) for label, model in labels.items()}
    return found


def figures_of(asked: Asked) -> Iterator[Figures]:
    bench, case = Bench(seed=0), models_of()[asked.model]
    for shapes in Shapes:
        cells = [_cell(case, exporter, shapes) for exporter in asked.exporters]
        outcomes = {cell.exporter: bench.run(cell) for cell in cells}
        program = next((each.prepared.program for each in outcomes.values() if each.prepared is not None), None)
        if shapes is Shapes.DYNAMIC and program is not None and not program.declaration.dynamic:
            return
        exported = {name: each for name, each in outcomes.items() if each.delivered is not None}
        seconds = _seconds(exported, shapes)
        for name, outcome in outcomes.items():
            yield Figures(asked.model, shapes, name, _fate(outcome), _reason(outcome), seconds.get(name), outcome.nodes)
    bench.close()


def _cell(case: ListedModel, exporter: str, shapes: Shapes) -> Cell:
    return Cell(case, Dtype.FLOAT32, OPSET, Device.CPU, Capture.TRACE, exporter, ONNXRUNTIME, shapes)


def _fate(outcome: Outcome) -> Fate:
    match outcome.status:
        case Status.PASSED:
            return Fate.RIGHT
        case Status.ABSENT:
            return Fate.NOT_RUN
        case _ if outcome.stage in (Stage.BUILD, Stage.REFERENCE):
            return Fate.NOT_RUN
        case _:
            return Fate.REFUSED if outcome.stage is Stage.EXPORT else Fate.WRONG


def _reason(outcome: Outcome) -> str:
    # That of a wrong result may lie with the runtime, or be beyond what float32 can tell.
    return f"{outcome.reason} (blamed on the {outcome.blame})" if outcome.blame else outcome.reason


def _seconds(exported: dict[str, Outcome], shapes: Shapes) -> dict[str, float]:
    """The processor seconds of the quickest export by exporter. They take turns, and what is slow is measured once."""
    taken: dict[str, list[float]] = {name: [outcome.export_cpu] for name, outcome in exported.items()}
    for turn in range(MOST_WARM):
        if turn >= WARM and not _is_close([min(times) for times in taken.values()]):
            break
        for name, times in taken.items():
            if sum(times) < ENOUGH:
                times.append(_time_of_export(exported[name], name, shapes))
    return {name: min(times) for name, times in taken.items()}


def _is_close(times: Sequence[float]) -> bool:
    least, *others = sorted(times)
    return bool(others) and others[0] < CLOSE * least


def _time_of_export(outcome: Outcome, name: str, shapes: Shapes) -> float:
    assert outcome.prepared is not None
    program = outcome.prepared.program
    inputs = outcome.prepared.reference.example.inputs
    request = Request(program.module, inputs, program.input_names, program.declaration.asked(shapes))
    gc.collect()
    start = time.process_time()
    EXPORTERS[name].capture(request).deliver(OPSET, None)
    return time.process_time() - start


def main(descriptor: int) -> None:
    """Send the names of the models, then answer until no more are asked for."""
    warnings.simplefilter("ignore")
    with to_owner(descriptor) as channel:
        channel.send(msgspec.json.encode([*models_of()]))
        while True:
            asked = msgspec.json.decode(channel.receive(), type=Asked)
            channel.send(msgspec.json.encode([*figures_of(asked)]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
