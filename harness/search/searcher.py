"""A worker process of a search: draws programs by number, and puts each to its probes.

    python -m onnx_parity.harness.search.searcher DESCRIPTOR

An `Order` comes first on standard input, then numbers. Answers go to the descriptor, because exporters print.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import msgspec
import torch

from onnx_parity.harness.axes import ONNXRUNTIME, PARITY, TORCH_DYNAMO
from onnx_parity.harness.cases.seeds import stable_seed
from onnx_parity.harness.running.channel import Channel, to_owner
from onnx_parity.harness.search.catalogue import Catalogue
from onnx_parity.harness.search.cause_of_failure import cause, list_called, rough
from onnx_parity.harness.search.generated import GeneratedProgram
from onnx_parity.harness.search.generating import Drawn, draw, quietly, redrawn
from onnx_parity.harness.search.looking import Choice, Ending, look
from onnx_parity.harness.search.messages import Crashed, Entered, Found, Order, Report
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import Failure, Fault, Point
from onnx_parity.harness.search.reducing import MOST_TRIED, dies_at, reduce
from onnx_parity.harness.search.scripts import script

#: Sent once, when all slow imports are done.
READY = b"ready"
#: After so many programs, a process is warm.
WARM = 200
#: How many inputs are tried for results that mean something.
REDRAWN = 4
#: So many failures of one rough cause are reduced; two causes may be alike in it.
ALIKE = 3
#: For exporters that take seconds, fewer programs are tried in a reduction.
SLOW = {TORCH_DYNAMO: 25}


class Searcher:
    """Draws programs and looks at them."""

    def __init__(self, order: Order, entered: Channel | None = None, *, reduces: bool = True) -> None:
        self._order = order
        self._catalogue = Catalogue.of_project([Path(each) for each in order.declarations])
        self._choice = Choice(order.probes, order.exporters, order.opsets)
        self._reduced = Counter(order.reduced)
        self._channel = entered
        self._reduces = reduces
        self._looked = 0

    def look_at(self, number: int) -> Report:
        """Draw the program of a number and put it to its points."""
        start, aside, others = time.process_time(), 0.0, 0.0
        seed = stable_seed(self._order.seed, "program", str(number))
        drawn = draw(seed, self._catalogue.hand(self._order.seed, number))
        endings: Counter[str] = Counter()
        found: list[Found] = []
        known = set[str]()
        subject = None if drawn.refused or not drawn.program.outputs else _steady(drawn)
        if subject is not None:
            for point in self._choice.points(seed):
                if any(part.may_fail(point.opset) for part in subject.program.parts.values()):
                    continue
                self._enter(str(point))
                entered = time.process_time()
                with quietly():
                    looked = look(subject, point)
                if point != Point(ONNXRUNTIME, PARITY, point.opset):
                    others += time.process_time() - entered
                endings[looked.ending] += 1
                if looked.failure is not None and rough(subject.program, looked.failure) not in known:
                    known.add(rough(subject.program, looked.failure))
                    began = time.process_time()
                    found.append(self._make_found(number, subject, point, looked.failure))
                    aside += time.process_time() - began
            subject.release()
        seconds = time.process_time() - start - aside
        self._looked += 1
        return Report(
            number, drawn.lines, drawn.refused, drawn.finite, subject is not None, dict(endings), seconds,
            tuple(found), others, self._looked > WARM,
        )  # fmt: skip

    def reduce_crash(self, crashed: Crashed) -> Report:
        """Reduce a program that ends the process. Each candidate is looked at in a copy of this one."""
        seed = stable_seed(self._order.seed, "program", str(crashed.number))
        point = next(each for each in self._choice.points(seed) if str(each) == crashed.point)
        failure = Failure(point.culprit, Fault.CRASH, crashed.detail)
        subject = _steady(draw(seed, self._catalogue.hand(self._order.seed, crashed.number)))
        assert subject is not None, "it was looked at"
        with tempfile.TemporaryDirectory(prefix="parity-") as aside:
            dies = partial(dies_at, point=point, stderr=Path(aside) / "stderr")
            small = ProbedProgram(reduce(subject.program, point, failure, MOST_TRIED, dies))
        why = f"{failure.culprit}: crash: {' '.join(sorted(set(list_called(small.program))))}"
        text = script(small, point, failure, f"{failure.culprit}: {crashed.detail} ({point})")
        found = Found(
            crashed.number, crashed.point, failure.culprit, failure.fault, crashed.detail, why, why,
            small.program.source, text,
        )  # fmt: skip
        return Report(crashed.number, len(subject.program.lines), "", True, True, {Ending.FAILED: 1}, 0.0, (found,))

    def _make_found(self, number: int, subject: ProbedProgram, point: Point, failure: Failure) -> Found:
        alike = rough(subject.program, failure)
        self._reduced[alike] += 1
        plain = Found(number, str(point), failure.culprit, failure.fault, failure.detail, alike)
        if self._reduced[alike] > ALIKE or not self._reduces:
            return plain
        self._enter(f"{point}, being reduced")
        small = ProbedProgram(reduce(subject.program, point, failure, SLOW.get(point.exporter, MOST_TRIED)))
        with quietly():
            again = look(small, point).failure or failure
            why = cause(small, point, again)
            text = script(small, point, again, f"{again.culprit}: {again.fault} ({point})")
        small.release()
        return msgspec.structs.replace(plain, detail=again.detail, cause=why, source=small.program.source, script=text)

    def _enter(self, point: str) -> None:
        if self._channel is not None:
            self._channel.send(msgspec.json.encode(Entered(point)))


def _steady(drawn: Drawn) -> ProbedProgram | None:
    """The program with inputs for which a difference means something; None if there are none among those tried."""
    for turn in range(REDRAWN):
        program: GeneratedProgram = redrawn(drawn.program, turn)
        subject = ProbedProgram(program)
        with quietly():
            if subject.example is not None:
                return subject
        subject.release()
    return None


def main(descriptor: int) -> None:
    """Answer numbers until there are no more."""
    # Ctrl+C reaches all processes of a terminal. The search ends its workers, and it is no crash of theirs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    with to_owner(descriptor) as channel:
        searcher = Searcher(msgspec.json.decode(channel.receive(), type=Order), channel)
        channel.send(READY)
        while True:
            asked = msgspec.json.decode(channel.receive(), type=int | Crashed)
            report = searcher.reduce_crash(asked) if isinstance(asked, Crashed) else searcher.look_at(asked)
            channel.send(msgspec.json.encode(report))


if __name__ == "__main__":
    main(int(sys.argv[1]))
