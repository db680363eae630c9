"""The plug-in in environments that it shares: what other suites and other plug-ins see of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onnx_parity.harness.pytest_plugin.options import OPTIONS, with_prefix
from onnx_parity.harness.running.limits import STAGE_SECONDS

pytest_plugins = "pytester"

_CASES = """
import torch.nn.functional as F
from onnx_parity.harness.case import floats, op

relu = op(F.relu, floats(2, 3))
"""
#: Names that are options of other plug-ins, or of somebody's conftest.py.
_COLLIDING = ("tier", "seed", "devices", "runs", "resume", "shard", "since")
_CONFTEST = f"""
def pytest_addoption(parser):
    for name in {_COLLIDING}:
        parser.addoption("--" + name, default="theirs")
"""
_TEST = """
def test_of_somebody_else(request):
    assert request.config.getoption("--seed") == "seven"
    assert request.config.getoption("--tier") == "theirs"
"""
_LEAN = ("-p", "onnx_parity", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--assert=plain")


def test_a_suite_of_somebody_else_keeps_its_options(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(test_theirs=_TEST)
    pytester.runpytest_inprocess(*_LEAN, "--seed", "seven").assert_outcomes(passed=1)
    # Their misspelt options are refused as they would be without the plug-in, those that are ours elsewhere included.
    for option in ("--opsets=9", "--nonsense"):
        result = pytester.runpytest_inprocess(*_LEAN, option)
        result.stderr.fnmatch_lines([f"*error: unrecognized arguments: {option}"])


def test_beside_options_of_the_same_names_cells_run_with_the_prefixed_ones(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(cases=_CASES)
    given = ("--seed", "seven", "--parity-seed", "3", "--opsets", "9,18", "--parity-tier=smoke", "--parity-devices=cpu")
    result = pytester.runpytest_inprocess(*_LEAN, "--collect-only", "-q", *given, "cases.py")
    assert [line for line in result.outlines if "::" in line] == [
        "cases.py::relu::relu-float32-opset9-cpu-trace-onnxruntime",
        "cases.py::relu::relu-float32-opset18-cpu-trace-onnxruntime",
    ]


def test_the_two_names_of_an_option_are_one_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(cases=_CASES)
    for options in (["--opsets", "9"], ["--parity-opsets", "9"], ["--parity-opsets=18", "--opsets=9"]):
        result = pytester.runpytest_inprocess(*_LEAN, "--collect-only", "-q", "--devices=cpu", *options, "cases.py")
        assert [line for line in result.outlines if "::" in line] == [
            "cases.py::relu::relu-float32-opset9-cpu-trace-onnxruntime"
        ]


def test_a_suite_without_declarations_loads_nothing_of_the_harness(tmp_path: Path) -> None:
    program = """
import sys, pytest
class Asked:
    def pytest_sessionfinish(self):
        mine = sorted(name for name in sys.modules if name.startswith("onnx_parity.harness."))
        print("loaded:", *mine, *{"torch", "onnx", "numpy", "msgspec"} & set(sys.modules))
pytest.main(["-p", "onnx_parity", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "-q", "-s"], [Asked()])
"""
    printed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    (loaded,) = (line for line in printed.stdout.splitlines() if "loaded:" in line)
    assert loaded.partition("loaded: ")[2].split() == [
        "onnx_parity.harness.axes",
        "onnx_parity.harness.extra",
        "onnx_parity.harness.project",
        "onnx_parity.harness.pytest_plugin",
        "onnx_parity.harness.pytest_plugin.options",
        "onnx_parity.harness.pytest_plugin.plugin",
    ]


@pytest.mark.slow
def test_declarations_that_nothing_announced_run_in_one_process_and_are_refused_in_several(
    pytester: pytest.Pytester,
) -> None:
    folder = pytester.mkpydir("deep")
    (folder / "test_cases.py").write_text(_CASES)
    options = ("--parity-opsets=9", "--parity-devices=cpu")
    found = pytester.runpytest_inprocess(*_LEAN, *options)
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["1 cell: 1 passed; *"])
    pytester.runpytest_inprocess(*_LEAN, "-k", "opset9 and cpu").stdout.fnmatch_lines(["1 cell: 1 passed; *"])
    refused = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-n", "1", "-k", "opset9 and cpu")
    refused.stdout.fnmatch_lines(["*test_cases.py has declarations. To run them in several processes, name *"])
    assert refused.ret != 0


@pytest.mark.parametrize(
    ("word", "prefixed"),
    [
        ("--seed", "--parity-seed"),
        ("--stage-seconds=60", "--parity-stage-seconds=60"),
        ("--parity-seed=1", "--parity-seed=1"),
        ("--maxfail=1", "--maxfail=1"),
        ("-k", "-k"),
        ("seed", "seed"),
    ],
)
def test_a_word_of_the_command_line_by_its_prefixed_name(word: str, prefixed: str) -> None:
    assert with_prefix(word) == prefixed


def test_the_help_names_the_limit_that_holds() -> None:
    assert f"(default: {STAGE_SECONDS:g})" in OPTIONS["stage-seconds"]["help"]


def test_only_suites_have_their_assertions_rewritten() -> None:
    loaders = {name: type(getattr(module, "__loader__", None)) for name, module in sys.modules.items()}
    rewritten = {name for name, loader in loaders.items() if loader.__module__.startswith("_pytest.")}
    assert __name__ in rewritten
    # What the plug-in consists of is imported before it can say anything.
    plug_in = {"onnx_parity.harness", "onnx_parity.harness.extra", "onnx_parity.harness.pytest_plugin"}
    plug_in.add("onnx_parity.harness.pytest_plugin.plugin")
    of_ours = {name for name in rewritten if name.startswith(("onnx_parity.exporter", "onnx_parity.harness"))}
    assert of_ours <= plug_in
