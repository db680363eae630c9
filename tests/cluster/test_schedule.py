"""Which cells are given to which worker: every cell once, groups whole, the longest first, small units at the end."""

from __future__ import annotations

import random

import pytest

from onnx_parity.harness.cluster.messages import CellWork
from onnx_parity.harness.cluster.schedule import LOST_FOR_GOOD, UNIT, Schedule


def cells(group: str, number: int, seconds: float = 1.0, memory: int = 0, cuda: bool = False) -> list[CellWork]:
    return [CellWork(f"{group}-{position}", group, seconds, memory, cuda) for position in range(number)]


def ids(given: list[CellWork]) -> list[str]:
    return [cell.nodeid for cell in given]


def done(schedule: Schedule, worker: str, given: list[CellWork]) -> None:
    assert all(schedule.record(worker, cell.nodeid) for cell in given)


def test_neighbouring_groups_are_given_together() -> None:
    work = [cell for number in range(40) for cell in cells(f"g{number}", 2, 2.5)]
    given = Schedule(work).take("one", workers=2)
    assert ids(given) == ids(work[:8])
    assert sum(cell.seconds for cell in given) == UNIT


def test_the_longest_unit_is_first_and_stays_whole() -> None:
    work = [*cells("short", 10), *cells("long", 10, 6.0), *cells("other", 10)]
    assert ids(Schedule(work).take("one", workers=1)) == ids(work[10:20])


def test_units_become_smaller_at_the_end() -> None:
    work = [cell for number in range(100) for cell in cells(f"g{number}", 1)]
    schedule = Schedule(work)
    sizes = []
    while given := schedule.take("one", workers=4):
        sizes.append(len(given))
        done(schedule, "one", given)
    assert sum(sizes) == 100
    assert sizes[0] >= 10
    assert max(sizes[-4:]) <= 2
    assert schedule.left == 0


def test_a_group_that_is_longer_than_the_share_of_a_worker_is_cut() -> None:
    schedule = Schedule(cells("one group", 40))
    taken = [schedule.take(str(worker), workers=4) for worker in range(4)]
    assert all(taken)
    assert max(map(len, taken)) <= 10


def test_cells_without_a_duration_are_given_too() -> None:
    schedule = Schedule(cells("unknown", 1000, 0.0))
    given = schedule.take("one", workers=8)
    while given:
        done(schedule, "one", given)
        given = schedule.take("one", workers=8)
    assert schedule.left == 0


def test_a_record_counts_once_and_from_its_worker_alone() -> None:
    schedule = Schedule(cells("g", 2))
    given = schedule.take("one", workers=1)
    assert not schedule.record("two", given[0].nodeid)
    assert schedule.record("one", given[0].nodeid)
    assert not schedule.record("one", given[0].nodeid)
    assert schedule.left == 1


def test_the_busiest_worker_gives_back_half() -> None:
    schedule = Schedule(cells("g", 16))
    given = schedule.take("one", workers=1)
    assert len(given) == 16
    [(worker, number)] = schedule.to_split(idle=1)
    assert (worker, number) == ("one", 8)
    assert schedule.to_split(idle=1) == [], "it is asked once"
    schedule.take_back("one", ids(given[8:]))
    again = schedule.take("two", workers=2)
    assert set(ids(again)) <= set(ids(given[8:]))
    assert schedule.left == 16


def test_the_cells_of_a_lost_worker_are_given_to_others() -> None:
    schedule = Schedule(cells("g", 4))
    given = schedule.take("one", workers=1)
    done(schedule, "one", given[:1])
    assert schedule.lost("one") == []
    assert ids(schedule.take("two", workers=1)) == ids(given[1:])
    assert not schedule.record("one", given[1].nodeid), "a lost worker's record comes too late"


def test_a_cell_that_takes_every_worker_with_it_is_given_up_alone() -> None:
    schedule = Schedule(cells("g", 3))
    lost, gone = 0, []
    while schedule.left:
        worker = str(lost)
        given = schedule.take(worker, workers=1)
        for cell in given:
            if cell.nodeid == "g-1":
                gone += schedule.lost(worker)
                lost += 1
                break
            assert schedule.record(worker, cell.nodeid)
    assert gone == ["g-1"]
    assert lost == LOST_FOR_GOOD


def test_no_cell_is_given_up_for_workers_that_it_did_not_end() -> None:
    schedule = Schedule(cells("g", 1))
    for worker in map(str, range(20)):
        assert schedule.take(worker, workers=1)
        assert schedule.lost(worker, by_cells=False) == []


def test_cells_that_need_a_gpu_are_given_to_those_who_have_one() -> None:
    schedule = Schedule([*cells("cpu", 1), *cells("gpu", 1, cuda=True)])
    assert ids(schedule.take("plain", workers=2)) == ["cpu-0"]
    assert schedule.take("plain", workers=2) == []
    assert ids(schedule.take("with a gpu", workers=2, cuda=True)) == ["gpu-0"]


def test_a_cell_waits_until_its_memory_is_free() -> None:
    schedule = Schedule([*cells("large", 1, 30.0, memory=9000), *cells("small", 1, memory=500)])
    assert ids(schedule.take("one", workers=2, memory=4000)) == ["small-0"]
    assert schedule.take("two", workers=2, memory=4000) == []
    assert ids(schedule.take("two", workers=2, memory=None)) == ["large-0"]


@pytest.mark.parametrize("seed", range(20))
def test_every_cell_ends_once_whatever_happens(seed: int) -> None:
    draw = random.Random(seed)
    work = [
        cell
        for number in range(60)
        for cell in cells(f"g{number}", draw.randint(1, 12), draw.choice((0.0, 0.01, 1.0, 30.0)))
    ]
    schedule = Schedule(work)
    held: dict[str, list[CellWork]] = {}
    ended: list[str] = []
    workers = 0
    while schedule.left:
        while len(held) < 5:
            workers += 1
            held[f"w{workers}"] = []
        worker = draw.choice(list(held))
        if not held[worker]:
            held[worker] = schedule.take(worker, workers=len(held))
        fate = draw.random()
        if fate < 0.01:
            ended += schedule.lost(worker)
            del held[worker]
            continue
        if fate < 0.1:
            for name, number in schedule.to_split(idle=2):
                number = min(number, len(held[name]))
                back = held[name][len(held[name]) - number :]
                del held[name][len(held[name]) - number :]
                schedule.take_back(name, ids(back))
        for cell in held[worker][: draw.randint(0, 5)]:
            held[worker].remove(cell)
            assert schedule.record(worker, cell.nodeid)
            ended.append(cell.nodeid)
    assert sorted(ended) == sorted(ids(work))
