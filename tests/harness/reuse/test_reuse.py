"""`--reuse`: what is used again and what never is, and what a run says if the hash of an outcome is not enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
import torch.nn.functional as F

from onnx_parity.harness.axes import Device
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.cases.watching import VARIABLE, state_of
from onnx_parity.harness.judging.outcome import Outcome
from onnx_parity.harness.record import Metrics, Record, Stage, Status
from onnx_parity.harness.reuse import reuse as module
from onnx_parity.harness.reuse.hashes import Grounds, noted_here
from onnx_parity.harness.reuse.reuse import Reuse
from onnx_parity.harness.reuse.store import Store
from onnx_parity.harness.running.stages import Bench
from onnx_parity.harness.store import read_info, read_records
from tests.forked import Ended
from tests.harness.fakes import FakeExporter, cell, one_node
from tests.harness.faults import LEAN, run_project
from tests.records import METRICS, RECORD
from tests.thinned import one_in

_ELU = op(F.elu, floats(2, 3))
#: Its tolerance is a number and no array.
_SUM = op(torch.sum, floats(2, 3))
_CASES = """
import os
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op
from onnx_parity.harness.cases.watching import VARIABLE, state_of
def _died(x):
    os.kill(os.getpid(), 9)
died = op(_died, floats(2, 3))
leaky = op(F.leaky_relu, floats(2, 3), negative_slope=[{slopes}])
relu = op(F.relu, floats(2, {size}), dynamic={{"x": {{0: "batch"}}}})
odd = op(F.glu, floats(2, 3))
refused = op(F.affine_grid, floats(1, 2, 3), size=(1, 1, 2, 2), align_corners=True, min_opset=9)
def _scaled(x):
    return x * float(os.environ._data.get(b"SCALE", 2))  # No run can see that.
scaled = op(_scaled, floats(2, 3))
"""


@pytest.fixture(autouse=True)
def _draw_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 1 << 62)


def _reuse(folder: Path, grounds: Grounds | None = None, *, days: float = 7.0, run: str = "first") -> Reuse:
    return Reuse(Store(folder), grounds or Grounds(0), run, folder, days)


def _run(
    reuse: Reuse, make: Callable[[int], bytes] = lambda opset: one_node("Elu", opset), *depends: str
) -> tuple[Outcome, str]:
    """Run a cell as a run does; what is wrong with what was known of it."""
    bench = Bench(0, exporters={"parity": FakeExporter(lambda opset, _: make(opset))}, reuse=reuse)
    it = cell(_ELU)
    blank = msgspec.structs.replace(RECORD, cell=it.id, began=time.time(), line=_ELU.line)
    outcome = bench.run(it)
    wrong = reuse.settle(outcome, outcome.onto(blank), depends, lambda: bench.run(it).onto(blank))
    reuse.flush()
    return outcome, wrong


def _edited(file: str, grounds: Grounds | None = None) -> Grounds:
    """The grounds of a process in which this file is another one."""
    edited = Grounds(0)
    vars(edited)["code"] = {**(grounds or Grounds(0)).code, file: "edited"}
    assert file in Grounds(0).code
    return edited


def test_after_a_change_of_the_exporter_a_model_with_the_same_bytes_is_not_run_again(tmp_path: Path) -> None:
    first, _ = _run(_reuse(tmp_path))
    assert (first.status, first.reused) == (Status.PASSED, "")
    same = _reuse(tmp_path, run="second")
    known = same.before_export(cell(_ELU))
    assert known is not None
    assert (known.run, known.record.status, known.record.metrics) == ("first", Status.PASSED, first.metrics)
    other = _reuse(tmp_path, _edited("exporter/lowering/lower_node.py"), run="third")
    assert other.before_export(cell(_ELU)) is None
    again, wrong = _run(other)
    assert (again.reused, wrong, set(again.seconds)) == ("first", "", {"build", "reference", "export"})
    assert (again.metrics, again.onnx, again.nodes, again.ran) == (first.metrics, first.onnx, first.nodes, known.ran)
    # It is known for this exporter now, too.
    assert other.before_export(cell(_ELU)) is not None


@pytest.mark.parametrize(
    "file",
    one_in(
        3,
        [
            "harness/judging/blame.py",
            "harness/running/stages.py",
            "harness/subjects/runtimes.py",
            "harness/transformations/signal.py",
            "exporter/verification/oracle.py",
            "exporter/arrays.py",
            "exporter/runtime/sessions.py",
        ],
    ),
)
def test_after_a_change_of_what_judges_nothing_is_used(tmp_path: Path, file: str) -> None:
    _run(_reuse(tmp_path))
    other = _reuse(tmp_path, _edited(file), run="second")
    assert other.before_export(cell(_ELU)) is None
    assert _run(other)[0].reused == ""


def test_after_a_change_of_what_it_has_read_nothing_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = f"{VARIABLE}PARITY_OF_THIS_TEST"
    monkeypatch.setenv("PARITY_OF_THIS_TEST", "1")
    _run(_reuse(tmp_path), lambda opset: one_node("Elu", opset), f"{needed} {state_of(needed, tmp_path)}")
    assert _reuse(tmp_path, run="second").before_export(cell(_ELU)) is not None
    monkeypatch.setenv("PARITY_OF_THIS_TEST", "2")
    assert _reuse(tmp_path, run="third").before_export(cell(_ELU)) is None


def test_results_without_axes_are_hashed_too(tmp_path: Path) -> None:
    outcome = Bench(0, reuse=_reuse(tmp_path)).run(cell(_SUM))
    assert (outcome.status, len(outcome.key)) == (Status.PASSED, 32)


def test_another_model_is_run(tmp_path: Path) -> None:
    _run(_reuse(tmp_path))
    edited = _reuse(tmp_path, _edited("exporter/tracing/trace.py"), run="second")
    outcome, wrong = _run(edited, lambda opset: one_node("Elu", opset, alpha=3.0))
    assert (outcome.status, outcome.stage, outcome.reused, wrong) == (Status.FAILED, Stage.COMPARE, "", "")


def test_another_seed_machine_environment_or_package_is_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    it, hashes = cell(_ELU), {Grounds(0).before_export(cell(_ELU))}
    assert Grounds(0).before_export(it) in hashes
    hashes.add(Grounds(1).before_export(it))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    hashes.add(Grounds(0).before_export(it))
    monkeypatch.setattr("onnx_parity.harness.reuse.hashes._processor", lambda: "another")
    hashes.add(Grounds(0).before_export(it))
    monkeypatch.setattr("onnx_parity.harness.reuse.hashes.states", lambda: {"torch": "1.0"})
    hashes.add(Grounds(0).before_export(it))
    hashes |= {Grounds(0).before_export(cell(_ELU, opset=opset)) for opset in (9, 13)}
    assert len(hashes) == 7


def test_an_outcome_that_differs_is_an_error_that_names_what_the_hash_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING", "1")
    _run(_reuse(tmp_path))
    monkeypatch.setenv("SOMETHING", "2")
    audit = _reuse(tmp_path, days=0, run="second")
    assert audit.before_export(cell(_ELU)) is None
    _, wrong = _run(audit, lambda opset: one_node("Elu", opset, alpha=3.0))
    assert wrong.startswith("run first kept another outcome for the same hash, passed at rerun_values with headroom ")
    assert "; here failed at compare with headroom " in wrong
    assert wrong.endswith(". The hash lacks what differs between the two: the variable SOMETHING")
    # It is not used any longer, whatever comes, and is no error again.
    assert _run(_reuse(tmp_path, days=0, run="third"))[1] == ""
    assert _reuse(tmp_path, run="fourth").before_export(cell(_ELU)) is None


def test_a_flaky_cell_is_named_as_such_and_never_used(tmp_path: Path) -> None:
    _run(_reuse(tmp_path))
    alphas = iter((3.0, 4.0))
    audit = _reuse(tmp_path, days=0, run="second")
    it = cell(_ELU)
    blank = msgspec.structs.replace(RECORD, cell=it.id, line=_ELU.line)

    def run() -> Outcome:
        alpha = next(alphas)
        make = FakeExporter(lambda opset, _: one_node("Elu", opset, alpha=alpha))
        return Bench(0, exporters={"parity": make}, reuse=audit).run(it)

    outcome = run()
    wrong = audit.settle(outcome, outcome.onto(blank), (), lambda: run().onto(blank))
    assert "It is flaky: run once more, it ended otherwise here too, failed at compare with" in wrong
    audit.flush()
    assert _reuse(tmp_path, run="third").before_export(it) is None


def test_where_nothing_noted_differs_the_error_says_what_may_be_the_cause(tmp_path: Path) -> None:
    _run(_reuse(tmp_path))
    _, wrong = _run(_reuse(tmp_path, days=0, run="second"), lambda opset: one_node("Elu", opset, alpha=3.0))
    assert wrong.endswith("such as a file that is not read by Python's `open`: name it as `data` in the settings")
    assert "the number of processors" in noted_here()


def _settle(folder: Path, outcome: Outcome, **changes: object) -> bool:
    """Whether an outcome is kept."""
    blank = msgspec.structs.replace(RECORD, cell=outcome.cell.id, line=_ELU.line, began=time.time())
    reuse, record = _reuse(folder), outcome.onto(blank)
    assert reuse.settle(outcome, record, (), lambda: record) == ""
    reuse.flush()
    return _reuse(folder, run="second").before_export(outcome.cell) is not None


@pytest.mark.slow
def test_what_ended_for_want_of_something_is_never_kept(tmp_path: Path) -> None:
    it = cell(_ELU)
    passed = Outcome(it, "onnxruntime", Stage.RERUN_VALUES, metrics=METRICS)
    assert not _settle(tmp_path / "absent", replace(passed, status=Status.ABSENT))
    assert not _settle(tmp_path / "memory", replace(passed, status=Status.FAILED, raised=MemoryError))
    assert not _settle(tmp_path / "network", replace(passed, status=Status.FAILED, raised=ConnectionError))
    assert not _settle(tmp_path / "gpu", replace(passed, cell=cell(_ELU, device=Device.CUDA)))
    assert _settle(tmp_path / "failed", replace(passed, status=Status.FAILED, raised=ValueError))
    assert _settle(tmp_path / "refused", replace(passed, status=Status.UNSUPPORTED))
    assert _settle(tmp_path / "passed", passed)


def test_code_that_changed_after_the_process_began_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell may have run the older code, and the hash is of the newer."""
    monkeypatch.setattr(module, "process_start", lambda: time.time() - 10 * 365 * 86400)
    assert _run(_reuse(tmp_path))[0].status is Status.PASSED
    assert _reuse(tmp_path).before_export(cell(_ELU)) is None


def test_one_case_in_fifty_is_drawn_and_another_run_draws_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 50)
    declared = op(F.elu, floats(2, 3), alpha=[float(number) for number in range(1000)])
    cells = [replace(cell(declared), case=case, opset=opset) for case in declared.cases("elu") for opset in (9, 18)]
    drawn: list[set[str]] = []
    for each in (_reuse(tmp_path), _reuse(tmp_path, run="second")):
        labels = [it.case.label for it in cells if each._is_drawn(it)]
        drawn.append(set(labels))
        assert len(labels) == 2 * len(drawn[-1]), "only some cells of a case are drawn"
    assert all(10 < len(each) < 35 for each in drawn)
    assert len(drawn[0] & drawn[1]) < 5


def test_a_run_of_what_has_not_changed_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*options: str, size: int = 3) -> tuple[Ended, dict[str, Record]]:
        (tmp_path / "cases.py").write_text(_CASES.format(slopes="0.1, 0.2", size=size))
        given = ("--opsets", "9,13", "--devices", "cpu", "--reuse", "store", "-n", "0", *options, "cases.py")
        ended = run_project(tmp_path, "pytest", *LEAN, *given)
        return ended, {record.cell: record for record in read_records(tmp_path / "runs" / "last")}

    (tmp_path / "conftest.py").write_text(
        "import onnx_parity.harness.reuse.reuse as of_the_run\nof_the_run.SHARE = 1 << 62"
    )
    ended, first = run()
    first_run = read_info(tmp_path / "runs" / "last").id
    assert not any(record.reused for record in first.values())
    assert {record.status for record in first.values()} == {Status.PASSED, Status.FAILED, Status.CRASHED}
    again, second = run("--reuse-days", "9")
    assert again.code == ended.code == 1
    died = {each for each, record in first.items() if record.status is Status.CRASHED}
    assert {each for each, record in second.items() if not record.reused} == died
    assert f"{len(first) - len(died)} of {len(first)} cells (" in again.text
    for each in first.keys() - died:
        was, now = first[each], second[each]
        assert (now.reused, now.seconds, now.ran) == (first_run, {}, was.began)
        assert (now.status, now.stage, now.reason, now.metrics, now.depends) == (
            was.status, was.stage, was.reason, was.metrics, was.depends
        )  # fmt: skip
    odd = next(record for each, record in second.items() if each.startswith("odd") and record.reused)
    assert f"outcome of run {first_run}. This makes a bundle:  parity repro '{odd.cell}'" in odd.message
    # An edit of a row runs the cells of that row alone.
    _, third = run(size=5)
    assert {record.name for record in third.values() if not record.reused} >= {"relu", "died"}
    assert {record.name for record in third.values() if record.reused} == {"leaky", "odd", "scaled", "refused"}
    # What no run can see is found by those that are run all the same, here all.
    monkeypatch.setenv("SCALE", "3")
    ended, fourth = run("--reuse-days", "0")
    wrong = {record.name for record in fourth.values() if "The hash lacks what differs" in record.reason}
    assert wrong == {"scaled"}
    assert "the variable SCALE" in ended.text


def test_metrics_are_compared_to_the_last_bit(tmp_path: Path) -> None:
    assert isinstance(METRICS, Metrics)
    nearly = msgspec.structs.replace(METRICS, got=1.0000000000000002)
    one, other = (msgspec.structs.replace(RECORD, metrics=each) for each in (METRICS, nearly))
    assert module._differ(one, other)
    assert not module._differ(one, msgspec.structs.replace(one, seconds={"run": 1.0}, memory=3, worker="gw1"))
