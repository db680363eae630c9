"""The collection of cells by the plug-in: declarations, the selection by options, and errors of both."""

from __future__ import annotations

import re

import pytest

# Imported before pytester stores the loaded modules. It unloads later ones, but torch cannot be imported twice.
import onnx_parity  # noqa: F401
from tests.harness.faults import LEAN
from tests.harness.pytest_run import PASSING, run_pytest

pytest_plugins = "pytester"


@pytest.fixture
def cases(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(cases=PASSING)
    return pytester


def collected(pytester: pytest.Pytester, *options: str) -> list[str]:
    """The ids of the cells that pytest would run."""
    result = pytester.runpytest_inprocess(*LEAN, "--collect-only", "-q", *options)
    return [line.rpartition("::")[2] for line in result.outlines if line.startswith("cases.py::")]


def test_a_declaration_file_is_its_own_test_file(cases: pytest.Pytester) -> None:
    ids = collected(cases, "cases.py", "--opsets", "9", "--devices", "cpu")
    assert ids == [
        "elu[alpha=1.0]-float32-opset9-cpu-trace-onnxruntime",
        "elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime",
        "relu-float32-opset9-cpu-trace-onnxruntime",
        "relu-float32-opset9-cpu-trace-onnxruntime-dynamic",
    ]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["cases.py"], 5 + 2 + 6 + 1 + 3),
        (["cases.py", "--tier", "smoke"], 8 + 3),
        (["cases.py", "--tier", "full", "--dtypes", "float32", "-k", "not drawn"], 88 + 3),
        (["cases.py", "-k", "elu and opset9 and not relu"], 1),
        (["cases.py", "-k", "alpha and not opset2"], 3 + 3),
        (["cases.py", "-k", "dynamic"], 1),
        (["cases.py", "-k", "cuda"], 3),
        (["cases.py::relu", "--devices", "cpu"], 6 + 1),
        (["cases.py::elu::elu[alpha=0.5]-float32-opset9-cpu-trace-onnxruntime"], 1),
        (["cases.py", "--opsets", "7-9", "--devices", "cpu,cuda"], 3 * 4 * 2),
        (["cases.py", "--opsets", "9", "--devices", "cpu", "--exporters", "parity,torch_dynamo"], 8),
        (["cases.py", "--opsets", "9", "--devices", "cpu", "--runtimes", "onnxruntime,onnx.reference"], 8),
    ],
)
def test_cells_are_selected_by_path_by_keyword_and_by_option(
    cases: pytest.Pytester, options: list[str], count: int
) -> None:
    assert len(collected(cases, *options)) == count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--opsets", "6"], "--opsets 6: there is no opset 6 here, only 7 to 28."),
        (
            ["--reuse", "cases.py"],
            "--reuse cases.py cannot be used: cases.py is not a writable folder. Choose another one.",
        ),
        (
            ["--runs", "cases.py/runs"],
            "--runs cases.py/runs cannot be used: cases.py is not a writable folder. Choose another one.",
        ),
        (["--devices", "tpu"], "--devices tpu: there is no 'tpu', only cpu, cuda."),
        (
            ["--exporters", "tf2onnx"],
            "--exporters tf2onnx: there is no 'tf2onnx', only parity, torch_dynamo, torch_script, transformers, and "
            "module:function.",
        ),
        (
            ["--runtimes", "ort"],
            "--runtimes ort: there is no 'ort', only onnxruntime, onnxruntime:none, onnxruntime:basic, "
            "onnxruntime:extended, onnxruntime:layout, onnxruntime:openvino, onnxruntime:tensorrt, onnx.reference, "
            "openvino, tract, tinygrad, emx, iree, tvm, jaxonnxruntime, opencv, and backend:module.",
        ),
        (
            ["--durations-of", "gone"],
            "--durations-of gone has no effect without --shard or --on. Add a shard, such as --shard 1/2.",
        ),
        (
            ["--durations-of", "gone", "--shard", "1/2"],
            "gone is not a run: it has no run.json. `parity run` makes one.",
        ),
    ],
)
def test_invalid_options_end_the_run(cases: pytest.Pytester, options: list[str], message: str) -> None:
    result = cases.runpytest_inprocess(*LEAN, "cases.py", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_invalid_expectations_end_the_run_of_any_file_beside_them(cases: pytest.Pytester, workers: str) -> None:
    cases.makefile(".toml", expectations='[[known]]\ncells = "elu*"\n')
    ended = run_pytest(cases.path, "cases.py", "--opsets", "18", "-n", workers)
    assert ended.code == pytest.ExitCode.USAGE_ERROR
    told = r"^ERROR: .*expectations\.toml: \[\[known\]\] number 1: Object missing required field `stage`\. "
    assert re.search(told, ended.text, re.MULTILINE)
    assert not (cases.path / "runs").exists()


def test_two_declarations_of_one_name_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(first=PASSING, second=PASSING)
    result = pytester.runpytest_inprocess(*LEAN, "first.py", "second.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            f"{name} is declared twice, at *first.py:{line} and *second.py:{line}. Rename one of them."
            for name, line in (("elu", 5), ("relu", 6))
        ]
    )


def test_a_package_that_cannot_be_imported_is_a_line(pytester: pytest.Pytester) -> None:
    vocabulary = "from onnx_parity.harness.case import floats, op"
    pytester.makepyfile(missing_package=f"{vocabulary}\nimport nosuchpackage\nsine = op(abs, floats(2))\n")
    result = pytester.runpytest_inprocess(*LEAN, "missing_package.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*missing_package.py:2: ModuleNotFoundError: No module named 'nosuchpackage'"])
    assert "Traceback" not in result.stdout.str()


def test_a_file_that_is_no_python_is_a_line(pytester: pytest.Pytester) -> None:
    vocabulary = "from onnx_parity.harness.case import floats, op"
    pytester.makepyfile(unclosed=f"{vocabulary}\nsine = op(abs, floats(2)\n")
    result = pytester.runpytest_inprocess(*LEAN, "unclosed.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*unclosed.py:2: SyntaxError: '(' was never closed"])


def test_an_invalid_declaration_fails_its_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(cases="from onnx_parity.harness.case import floats, op\nbad = op(abs, floats(2), it=[1, 1])\n")
    result = pytester.runpytest_inprocess(*LEAN, "cases.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*cases.py:2: bad[[]it=1[]] is declared twice. Drop one of the two values."])


def test_a_run_without_cells_leaves_no_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain="def test_it():\n    assert True\n")
    pytester.runpytest_inprocess(*LEAN).assert_outcomes(passed=1)
    assert not (pytester.path / "runs").exists()


@pytest.mark.parametrize(
    ("axis", "told"),
    [
        ("--opsets", "'' is neither an opset nor a range. Write 9,13-18."),
        ("--dtypes", "there is no '', only float32, "),
        ("--devices", "there is no '', only cpu, cuda."),
        ("--captures", "there is no '', only trace, script, exported_program."),
        ("--runtimes", "there is no '', only onnxruntime, "),
    ],
)
def test_an_empty_axis_is_refused(cases: pytest.Pytester, axis: str, told: str) -> None:
    result = cases.runpytest_inprocess(*LEAN, axis, "")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {axis} : {told}" in result.stderr.str()


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_cells_are_refused_if_their_run_cannot_be_written_and_other_tests_are_not(
    cases: pytest.Pytester, workers: str
) -> None:
    cases.makefile("", runs="mine")
    cases.makepyfile(test_plain="def test_it():\n    assert True\n")
    ended = run_pytest(cases.path, "-n", workers, "cases.py", "--opsets", "18", "--devices", "cpu")
    assert ended.code == pytest.ExitCode.USAGE_ERROR
    runs = cases.path / "runs"
    told = f"ERROR: --runs {runs} cannot be used: {runs} is not a writable folder. Choose another one."
    assert told in ended.text.splitlines()
    assert "INTERNALERROR" not in ended.text
    plain = run_pytest(cases.path, "-n", workers, "test_plain.py")
    assert plain.code == 0 and "1 passed" in plain.text
    assert len(collected(cases, "cases.py", "-k", "relu and opset18", "--devices", "cpu")) == 2
    assert runs.read_text() == "mine"


def test_a_name_that_a_file_declares_twice_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(cases=PASSING + "relu = op(F.relu, floats(4))\n")
    result = pytester.runpytest_inprocess(*LEAN, "cases.py")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["relu is declared twice, at *cases.py:6 and *cases.py:8. Rename one of them."])


def test_expectation_files_of_other_programs_are_ignored(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", expectations="mine = true\n")
    pytester.makepyfile(test_plain="def test_it():\n    assert True\n")
    pytester.runpytest_inprocess(*LEAN).assert_outcomes(passed=1)
    pytester.makepyfile(cases=PASSING)
    assert pytester.runpytest_inprocess(*LEAN).ret == pytest.ExitCode.INTERRUPTED
