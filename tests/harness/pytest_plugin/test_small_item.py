"""Items that take little memory behave as pytest's own do."""

from __future__ import annotations

import pytest

from onnx_parity.harness.pytest_plugin.small_item import SmallItem

pytest_plugins = "pytester"

_CONFTEST = """
import pytest
from onnx_parity.harness.pytest_plugin.small_item import SmallItem

def pytest_collect_file(file_path, parent):
    return File.from_parent(parent, path=file_path) if file_path.suffix == ".names" else None

class File(pytest.File):
    def collect(self):
        return (Item.from_parent(self, name=name) for name in self.path.read_text().split())

class Item(SmallItem):
    def runtest(self):
        self.user_properties.append(("of", self.name))
        self.add_report_section("call", "stdout", "printed by " + self.name)
        assert self.name != "third"

def pytest_collection_modifyitems(items):
    assert not any("own_markers" in vars(item) for item in items)
    for item in items:
        if item.name != "first":
            item.add_marker(pytest.mark.late)

def pytest_configure(config):
    config.addinivalue_line("markers", "late: is not the first")

def pytest_runtest_logreport(report):
    if report.when == "call":
        assert "printed by" in str(report.sections)
        print(report.user_properties, "late" in report.keywords)
"""


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(_CONFTEST)
    pytester.makefile(".names", few="first second third")
    return pytester


def run(tests: pytest.Pytester, *words: str) -> pytest.RunResult:
    return tests.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-s", *words)


def test_properties_sections_and_markers_reach_the_reports(tests: pytest.Pytester) -> None:
    result = run(tests)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*('of', 'first')* False*", "*('of', 'second')* True*", "*printed by third*"])


@pytest.mark.parametrize(("words", "passed"), [(("-m", "not late"), 1), (("-k", "second or first"), 2)])
def test_markers_and_names_select(tests: pytest.Pytester, words: tuple[str, ...], passed: int) -> None:
    run(tests, *words).assert_outcomes(passed=passed, deselected=3 - passed)


def test_what_it_does_not_have_is_an_error_of_python() -> None:
    class Item(SmallItem):
        def runtest(self) -> None: ...

    with pytest.raises(AttributeError, match="'Item' object has no attribute 'callspec'"):
        _ = Item.__new__(Item).callspec
