"""`parity bisect`, with real environments made by pip from a folder of small wheels."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from typer.testing import CliRunner

from onnx_parity.harness.bisecting.bisection import bisect
from onnx_parity.harness.bisecting.history import History, histories_of, words_of
from onnx_parity.harness.bisecting.releases import releases_of
from onnx_parity.harness.bisecting.subjects import Answer, Verdict
from onnx_parity.harness.cli import app
from onnx_parity.harness.search.ledger import Finding, Progress, read, write

_SCRIPT = """
import wobbly

print("got", wobbly.double(2))
raise SystemExit(wobbly.double(2) != 4)
"""
_RIGHT, _WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return x * x + 1\n"
#: A release that has not what the script asks for, and one that cannot be imported.
_WITHOUT, _BROKEN = "", "import no_such_module_at_all\n"


def add_wheel(index: Path, version: str, source: str, tag: str = "py3-none-any", requires: str = "") -> None:
    """A wheel of the distribution `wobbly`."""
    about = f"wobbly-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: wobbly\nVersion: {version}\n"
    files = {
        "wobbly/__init__.py": source,
        f"{about}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(index / f"wobbly-{version}-{tag}.whl", "w") as wheel:
        for name, text in (files | {f"{about}/RECORD": record}).items():
            wheel.writestr(name, text)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip uses as its index, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bisect", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow  # Four environments, each of which takes pip a few seconds.
def test_releases_of_an_index_are_installed_and_asked(index: Path, tmp_path: Path) -> None:
    """The third is broken, the fifth is mended, one is for another Python, and one cannot be imported."""
    add_wheel(index, "0.9", _RIGHT, tag="cp37-cp37m-manylinux1_x86_64")
    for version, source in (("1.0", _WITHOUT), ("1.1", _RIGHT), ("1.2", _WRONG), ("1.3", _WRONG), ("1.10", _RIGHT)):
        add_wheel(index, version, source)
    write(tmp_path / "it", Finding(title="it", culprit="wobbly", fault="wrong result"), _SCRIPT)
    code, text, told = invoke("it", "wobbly", "--keep", "--to", "1.3")
    assert (code, text.splitlines()[-1]) == (0, "wobbly: since 1.2 (4 of 4 releases tested)")
    assert told.splitlines() == [
        "wobbly: 4 releases, 1.0 to 1.3",
        f"1 release has no wheel for Python {_python()} on this platform: 0.9",
    ]
    assert text.splitlines()[:2] == [
        "wobbly 1.3: fails  (got 5)",
        "wobbly 1.0: cannot tell  (AttributeError: module 'wobbly' has no attribute 'double')",
    ]
    assert (read(tmp_path / "it").since, read(tmp_path / "it").progress) == ("1.2", Progress.UNREPORTED)


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.slow  # As many.
def test_environments_are_used_again_and_a_release_that_cannot_be_used_is_told(index: Path, tmp_path: Path) -> None:
    add_wheel(index, "1.0", _WRONG)
    add_wheel(index, "1.1", _RIGHT)
    (tmp_path / "wrong.py").write_text(_SCRIPT)
    code, text, _ = invoke("wrong.py", "wobbly", "--json")
    assert (code, json.loads(text)["says"]) == (0, "since 1.0 or earlier, gone in 1.1")
    made = sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("pyvenv.cfg"))
    assert invoke("wrong.py", "wobbly", "--json")[:2] == (0, text)
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("pyvenv.cfg")) == made
    add_wheel(index, "1.2", _BROKEN)
    add_wheel(index, "1.3", _WRONG, requires="numpy<1")
    answers = {each["version"]: each for each in json.loads(invoke("wrong.py", "wobbly", "--json")[1])["tested"]}
    assert answers["1.3"]["is"] == "cannot tell"
    assert answers["1.3"]["prints"].startswith("it cannot be used here: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wrong.py", "nothing-of-this-name"], "pip finds no release of nothing-of-this-name with a wheel"),
        (
            ["wrong.py", "wobbly", "--from", "2.0"],
            "no release of wobbly in this range that has a wheel",
        ),
        (["wrong.py", "wobbly", "--from", "new"], "--from and --to are versions, such as 1.20.0"),
        (["wrong.py", "wobbly", "--keep"], "--keep writes into a finding: give the folder of one"),
        (["index", "wobbly"], "index is neither a bundle nor a finding: it has no bundle.json, and no finding.toml."),
        (["nothing", "wobbly"], "nothing is not the id of a cell"),
    ],
)
def test_what_cannot_be_searched_is_told(index: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    add_wheel(index, "1.0", _RIGHT)
    (tmp_path / "wrong.py").write_text(_SCRIPT)
    (tmp_path / "pyproject.toml").write_text("[tool.parity]\ndeclarations = ['cases.py']\n")
    (tmp_path / "cases.py").touch()
    code, _, told = invoke(*arguments)
    assert (code, words in told) == (2, True), told


def test_without_network_the_index_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(_SCRIPT)
    code, _, told = invoke("wrong.py", "wobbly")
    assert code == 2
    assert told.startswith("the package index could not be reached, so the releases of wobbly are not known.")


def test_releases_are_in_their_order_and_prereleases_are_asked_for(index: Path) -> None:
    for version in ("1.10", "1.9", "2.0rc1"):
        add_wheel(index, version, _RIGHT)
    assert releases_of("wobbly").usable == (Version("1.9"), Version("1.10"))
    assert releases_of("wobbly", prereleases=True).usable[-1] == Version("2.0rc1")


#: One letter a release: fails, passes, or says something else.
_LETTERS = {"f": Verdict.FAILS, "p": Verdict.PASSES, "o": Verdict.OTHER}


@pytest.mark.parametrize(
    ("answers", "at", "since", "fixed_in"),
    [
        ("ppppfffffpppp", 6, "4", "9"),
        ("fffffffffffff", 6, "0 or earlier", ""),
        ("ooooofffffffp", 7, "5 or earlier", "12"),
        ("oopppppfffffff", 13, "7", ""),
        ("ppppffffooopp", 5, "4", "11 or earlier"),
        ("ppppffffooooo", 5, "4", ""),
        ("fffffppppppp", 9, "0 or earlier", "5"),
        ("pppppppppfff", 2, "9", ""),
        ("pppppppppppp", 2, "", ""),
        ("f", 0, "0 or earlier", ""),
    ],
)
def test_the_first_that_fails_and_the_first_that_passes_again(answers: str, at: int, since: str, fixed_in: str) -> None:
    releases = [Version(str(number)) for number in range(len(answers))]
    asked: list[Version] = []

    def test(version: Version) -> Answer:
        asked.append(version)
        return Answer(_LETTERS[answers[int(str(version))]])

    found = bisect(releases, releases[at], test)
    assert found.history == History(since, fixed_in)
    assert len(asked) == len(set(asked)) == len(found.tested)


def test_a_hundred_releases_take_fifteen_runs() -> None:
    releases = [Version(str(number)) for number in range(100)]
    found = bisect(releases, Version("50"), lambda each: Answer(_LETTERS["f" if 7 <= each.major < 77 else "p"]))
    assert (found.words, len(found.tested) <= 15) == ("since 7, gone in 77", True)


def test_histories_in_words(tmp_path: Path) -> None:
    histories = {"onnx": History("1.2"), "onnxruntime": History("1.29.0", "1.31.0"), "torch": History()}
    assert words_of(histories) == "since onnx 1.2; since onnxruntime 1.29.0, gone in onnxruntime 1.31.0"
    assert histories_of(tmp_path) == {}
