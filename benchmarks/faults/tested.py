"""Attacks that tests of the project make, each repeated: on files, on the user's program and process, and on outputs.

Everything that a test asserts has to hold each time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from benchmarks.faults.tally import Tally

__all__ = ["tested"]

_ROOT = Path(__file__).parents[2]
#: The attacks, and the tests that make them.
_TESTS = {
    "report beside files of others": "tests/reports/test_publish.py::test_files_that_no_report_wrote_stay",
    "report into the working folder": (
        "tests/reports/test_publish.py::test_the_working_folder_can_be_replaced_and_stays_the_same_folder"
    ),
    "SIGTERM of a report": "tests/reports/test_publish.py::test_what_a_killed_report_left_is_removed_by_the_next_one",
    "kill -9 of a save with its weights": (
        "tests/exporter/files/test_replacing_models.py::test_the_process_is_killed_in_between"
    ),
    "arguments after an export, or a refusal": (
        "tests/exporter/program_state/test_arguments_left.py::test_a_cache_argument_does_not_grow"
    ),
    "exports, training and calls in threads": (
        "tests/exporter/tracing/test_threads.py::test_threads_export_train_and_call_at_once"
    ),
    "overlapping exports in two threads": (
        "tests/exporter/tracing/test_threads.py::test_overlapping_exports_leave_torch_as_it_was"
    ),
    "an export inside an export": "tests/exporter/tracing/test_hostile_programs.py::test_an_export_inside_an_export",
    "nested too deeply": "tests/exporter/tracing/test_hostile_programs.py::test_what_is_nested_too_deeply",
    "paths that are no Unicode": "tests/exporter/tracing/test_hostile_programs.py::test_paths_that_are_no_unicode",
    "a module after verify": "tests/exporter/verification/test_verification.py::test_the_program_is_left_as_it_was",
    "a program that exits": "tests/harness/commands/test_export_command.py::test_a_program_does_not_end_the_command",
    "models that are none": "tests/harness/commands/test_hostile_files.py::test_models_that_are_none",
    "files outside of a model's folder": (
        "tests/harness/commands/test_hostile_files.py::test_files_that_an_attribute_names_are_not_read"
    ),
    "no file": "tests/harness/commands/test_hostile_files.py::test_what_is_no_file",
    "inputs that cannot be made": "tests/harness/commands/test_hostile_files.py::test_inputs_that_cannot_be_made",
    "axes that cannot be": "tests/harness/commands/test_hostile_files.py::test_axes_that_cannot_be",
    "weights that are none": "tests/harness/commands/test_hostile_files.py::test_weights_that_are_none",
    "questions that would take forever": "tests/harness/results/test_query.py::test_a_question_that_would_take_forever",
    "hostile names in reports": "tests/reports/test_site.py::test_names_and_messages_are_text_and_never_markup",
    "hostile names in terminals": "tests/harness/commands/test_escaping.py::test_a_terminal_gets_no_control_characters",
    "hostile names in XML": "tests/harness/commands/test_escaping.py::test_xml_holds_any_text",
    "hostile names in Markdown": "tests/harness/commands/test_escaping.py::test_markdown_shows_the_text_as_it_is",
    "hostile names in annotations": (
        "tests/harness/commands/test_escaping.py::test_a_workflow_command_stays_one_line_with_its_properties"
    ),
}


class _Repeated:
    """Runs every test so many times. An attempt of which any part fails is noted in its words."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self.ran: Counter[str] = Counter()
        self.wrong: defaultdict[str, list[str]] = defaultdict(list)

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        for number in range(self._repeats):
            reports = runtestprotocol(item, log=False, nextitem=None)
            self.ran[item.nodeid] += 1
            wrong = [report for report in reports if not report.passed]
            self.wrong[item.nodeid] += [f"attempt {number}: {each.longreprtext[-300:]}" for each in wrong[:1]]
        return True


def tested(_: Path, repeats: int) -> Iterator[Tally]:
    """What tests hold against these attacks holds each time. A test that is skipped, or is not there, is wrong."""
    repeated = _Repeated(repeats)
    with redirect_stdout(StringIO()):
        pytest.main(["-q", "--rootdir", str(_ROOT), *(str(_ROOT / test) for test in _TESTS.values())], [repeated])
    for attack, test in _TESTS.items():
        # A test may have parameters, and each of its variants is repeated.
        variants = [each for each in repeated.ran if each == test or each.startswith(f"{test}[")]
        wrong = [words for variant in variants for words in repeated.wrong[variant]]
        attempts = repeats * max(1, len(variants))
        missing = attempts - sum(repeated.ran[variant] for variant in variants)
        yield Tally(attack, attempts, (*wrong, *["it did not run"] * missing))
