"""`python -m benchmarks.growth`: what it says of growth, and that its page is whole."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.growth.__main__ import found, power
from benchmarks.growth.axes import AXES, Axis
from benchmarks.growth.chart import Curve, draw_page

_NODES = AXES[0]
_WEIGHTS = next(axis for axis in AXES if axis.is_constant)


@pytest.mark.parametrize(
    ("values", "said", "holds"),
    [
        ((1.0, 10.0), "time: linear (power 1.00)", True),
        ((1.0, 100.0), "time: more than linear (power 2.00)", False),
        ((1.0, 3.0), "time: less than linear (power 0.48)", True),
        ((1.0, 1.1), "time: the same at every size", True),
        ((0.001, 0.1), "time: little at every size", True),
    ],
)
def test_growth_is_that_of_the_last_two_sizes(values: tuple[float, ...], said: str, holds: bool) -> None:
    assert found(_NODES, "time", power((1, 10, 100), (0.5, *values), 0.3)) == (said, holds)


def test_what_should_be_constant_may_not_be_linear() -> None:
    assert found(_WEIGHTS, "time", power((10, 100), (1.0, 10.0), 0.3)) == ("time: linear (power 1.00)", False)


def test_the_page_has_a_chart_of_each_curve_in_which_every_point_lies() -> None:
    curve = Curve("processor time", "s", (10, 1_000, 1_000_000), (0.0, 0.25, 40))
    page = draw_page([("nodes", "linear", [curve, curve])], "of <a machine>.")
    assert "of &lt;a machine&gt;." in page
    charts = page.split("<figure>")[1:]
    assert len(charts) == 2
    chart = ElementTree.fromstring(charts[0].partition("<figcaption>")[0])
    circles = chart.findall("circle")
    assert [each.findtext("title") for each in circles] == ["10: 0 s", "1 k: 0.25 s", "1 M: 40 s"]
    places = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in circles]
    assert all(0 < x < 400 and 0 < y < 250 for x, y in places)
    assert places == sorted(places, key=lambda place: (place[0], -place[1]))


@pytest.mark.parametrize("axis", AXES[:4], ids=lambda axis: axis.name)
def test_the_smallest_size_can_be_measured(axis: Axis, tmp_path: Path) -> None:
    axis.prepare(axis.sizes[0], tmp_path)()
    assert any(tmp_path.iterdir())
