"""start.py with an old Python, without ensurepip, and with a pip or an index that fails."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest

import start

ROOT = Path(start.__file__).parent

#: The Python outside of any virtual environment, which is the one that people start with.
SYSTEM_PYTHON = os.path.realpath(sys.executable)

#: What makes of it a Python whose pip refuses to install (PEP 668) and that has no ensurepip.
REFUSING = """
import sys
sys.modules["ensurepip"] = None
if sys.prefix == sys.base_prefix:
    sys.path.insert(0, {folder!r})
"""

#: Stands in for pip: unpacks itself when asked to install its own wheel, and notes every call.
FAKE_PIP = """
import pathlib, sys, sysconfig, zipfile
site, programs = (pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "scripts"))
if sys.argv[-1].endswith(".whl"):
    zipfile.ZipFile(sys.argv[-1]).extractall(site)
else:
    pytest = programs / "pytest"
    pytest.write_text(f"#!{sys.executable}\\nimport sys; print('pytest', *sys.argv[1:]); sys.exit(3)\\n")
    pytest.chmod(0o755)
with (site / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
"""


class Index(ThreadingHTTPServer):
    """A package index on this machine with one wheel of pip, which may want a name and a password."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("pip/__init__.py", "")
            archive.writestr("pip/__main__.py", FAKE_PIP)
        self.wheel = packed.getvalue()
        self.listed = start.PIP_WHEEL
        self.password: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.wheel).hexdigest()


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        index = cast(Index, self.server)
        if index.password is not None:
            wanted = "Basic " + base64.b64encode(index.password.encode()).decode()
            if self.headers["Authorization"] != wanted:
                self.send_error(401)
                return
        pages = {
            "/simple/pip/": f'<a href="../../files/{index.listed}#sha256=0">{index.listed}</a>'.encode(),
            f"/files/{index.listed}": index.wheel,
        }
        if self.path not in pages:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(pages[self.path])

    def log_message(self, format: str, *args: object) -> None:
        """Tests read what start.py says; the index stays silent."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with Index() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(start, "PIP_SHA256", server.sha256)
        yield server
        server.shutdown()


class Clone:
    """A fresh clone on a machine whose Python refuses `pip install` and has no ensurepip."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.root = folder / "clone"
        self.root.mkdir()
        for name in ("start.py", "pyproject.toml", "constraints.txt", "constraints-shared.txt"):
            shutil.copy(ROOT / name, self.root)
        bare = folder / "bare"
        bare.mkdir()
        (bare / "sitecustomize.py").write_text(REFUSING.format(folder=str(bare / "refusing")))
        refusing = bare / "refusing/pip"
        refusing.mkdir(parents=True)
        (refusing / "__init__.py").touch()
        (refusing / "__main__.py").write_text("raise SystemExit('error: externally-managed-environment')")
        self._variables = {**os.environ, "PYTHONPATH": str(bare), "PIP_INDEX_URL": index.url, "PIP_USER": "1"}
        self._sha256 = index.sha256

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # The pinned hash is the one thing that is replaced: the index here serves a pip of its own.
        program = f"import sys, start; start.PIP_SHA256 = {self._sha256!r}; sys.exit(start.main(sys.argv[1:]))"
        return self.python("-c", program, *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [SYSTEM_PYTHON, *arguments]
        return subprocess.run(
            command, cwd=self.root, env=self._variables, capture_output=True, text=True, check=False, timeout=60
        )

    def pip_calls(self) -> list[str]:
        (calls,) = self.root.glob(".venv/lib/python3.*/site-packages/calls")
        return calls.read_text().splitlines()


def test_sets_up_without_ensurepip_and_without_the_system_s_pip(index: Index, tmp_path: Path) -> None:
    clone = Clone(tmp_path, index)
    assert clone.python("-m", "pip", "--version").stderr == "error: externally-managed-environment\n"
    assert clone.python("-m", "ensurepip").returncode == 1
    first = clone.start("tests", "-k", "elu")
    assert first.stdout == "pytest -n auto -k elu\n"
    assert first.returncode == 3
    assert first.stderr.splitlines() == [
        f"start.py: creating {clone.root}/.venv with {SYSTEM_PYTHON}",
        f"start.py: this Python has no ensurepip; downloading {start.PIP_WHEEL} from {index.url}",
        f"start.py: installing the project and torch into {clone.root}/.venv; this takes some minutes, once",
    ]
    bring, install = clone.pip_calls()
    assert bring.startswith("install --quiet --no-index ")
    assert install == "install --quiet --no-compile -c constraints.txt -e .[dev]"


def test_second_call_sets_nothing_up(index: Index, tmp_path: Path) -> None:
    clone = Clone(tmp_path, index)
    clone.start("tests")
    calls = clone.pip_calls()
    again = clone.start("tests")
    assert again.stderr == ""
    assert clone.pip_calls() == calls


def test_changed_constraint_installs_again_into_the_same_environment(index: Index, tmp_path: Path) -> None:
    clone = Clone(tmp_path, index)
    clone.start("tests")
    with (clone.root / "constraints-shared.txt").open("a") as constraints:
        constraints.write("six==1.17.0\n")
    again = clone.start("tests")
    assert again.stderr == (
        f"start.py: installing the project and torch into {clone.root}/.venv; this takes some minutes, once\n"
    )
    assert clone.pip_calls()[2:] == ["install --quiet --no-compile -c constraints.txt -e .[dev]"]


def test_half_made_environment_is_finished(index: Index, tmp_path: Path) -> None:
    clone = Clone(tmp_path, index)
    start.create(start.Environment(clone.root / ".venv"))
    assert clone.start("tests").stdout == "pytest -n auto\n"


def test_wheel_that_is_not_pip_is_not_run(index: Index) -> None:
    true = index.sha256
    index.wheel += b"changed on the way"
    with pytest.raises(start.SetupError) as caught:
        start.fetch_pip(index.url)
    files = index.url.removesuffix("/simple") + "/files"
    assert str(caught.value) == (
        f"{files}/{start.PIP_WHEEL} is not the released {start.PIP_WHEEL}: its sha256 is {index.sha256}, "
        f"{true} was expected. Nothing of it was run. Ask the operator of the index."
    )


def test_index_without_that_pip(index: Index) -> None:
    index.listed = "pip-1.0-py3-none-any.whl"
    with pytest.raises(start.SetupError) as caught:
        start.fetch_pip(index.url)
    assert str(caught.value) == (
        f"{index.url}/pip/ does not list {start.PIP_WHEEL}. Install your system's python3-venv, "
        "or set PIP_INDEX_URL to an index that has it."
    )


def test_index_that_is_away(index: Index) -> None:
    with pytest.raises(start.SetupError) as caught:
        start.fetch_pip(f"{index.url}/nowhere")
    assert str(caught.value) == (
        f"{index.url}/nowhere/pip/ cannot be read: HTTP Error 404: Not Found. Install your system's python3-venv, "
        "set PIP_INDEX_URL to an index that can be reached, or HTTPS_PROXY to the proxy of this machine."
    )


def test_index_with_a_password_gets_it_and_messages_do_not_show_it(index: Index) -> None:
    index.password = "reader:s/cret"
    guarded = index.url.replace("//", "//reader:s%2Fcret@")
    assert start.fetch_pip(guarded) == index.wheel
    index.password = "another"
    with pytest.raises(start.SetupError) as caught:
        start.fetch_pip(guarded)
    assert str(caught.value).startswith(f"{index.url}/pip/ cannot be read: HTTP Error 401")


def test_index_is_the_one_that_pip_would_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "pip.conf"
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert start.package_index() == "https://pypi.org/simple"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    configuration.write_text("[global]\nindex-url = https://mirror.example/simple\n")
    assert start.package_index() == "https://mirror.example/simple"
    configuration.write_text("[global]\nindex-url = https://a.example\n[install]\nindex-url = https://b.example\n")
    assert start.package_index() == "https://b.example"
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example")
    assert start.package_index() == "https://c.example"


USAGE = """\
usage: python3 start.py COMMAND [ARGUMENTS...]

  matrix    run the default matrix, and show its report as it fills
  tests     run the tests and the default tier of the matrix
  coverage  run the same, and print which statements of the project they run
  lint      check format and style with ruff
  types     check types with mypy
  index     write which file of the exporter has which rules of operators
  bench     measure export times and compare them with torch.onnx

The first call sets up .venv. Arguments are passed to the command: python3 start.py tests -k elu
"""


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(["test"]) == 2
    assert capsys.readouterr() == ("", "start.py: there is no command 'test'\n" + USAGE)


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main([]) == 2
    assert capsys.readouterr() == ("", USAGE)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(["--help"]) == 0
    assert capsys.readouterr() == (USAGE, "")


@pytest.mark.parametrize("version", [(3, 9), (3, 15)])
def test_unsupported_python_gets_one_line(version: tuple[int, int], tmp_path: Path) -> None:
    newer = tmp_path / "python3.12"
    newer.touch(mode=0o755)
    source = (ROOT / "start.py").read_text()
    program = f"import sys; sys.version_info = {(*version, 0)}; sys.argv = ['start.py', 'matrix']; exec({source!r})"
    ran = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        f"onnx-parity needs Python 3.11 to 3.14; {sys.executable} is {version[0]}.{version[1]}. "
        "Found here: python3.12. Run: python3.12 start.py matrix\n"
    )


def test_older_pythons_can_read_the_file_and_report_what_they_lack() -> None:
    source = (ROOT / "start.py").read_text()
    assert ast.parse(source, feature_version=(3, 6)).body
    assert "from __future__ import annotations" not in source, "Python 3.6 stops at it with a SyntaxError"


def test_a_folder_that_may_not_be_written_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(environment: start.Environment) -> None:
        raise OSError(28, "No space left on device", str(environment.stamp))

    monkeypatch.setattr(start, "set_up", full)
    monkeypatch.setattr(start, "ROOT", tmp_path)
    assert start.main(["tests"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"start.py: {tmp_path / '.venv'} cannot be set up: [Errno 28] No space left on device: ")


def test_an_interrupted_set_up_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(environment: start.Environment) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "set_up", interrupted)
    assert start.main(["tests"]) == 130
    told = "start.py: interrupted. What is set up is kept: run the same command again to go on\n"
    assert capsys.readouterr().err == told


def test_a_second_set_up_waits_for_the_first(capfd: pytest.CaptureFixture[str]) -> None:
    second = "import start\nwith start.alone(): print('alone')"
    with start.alone():
        waiting = subprocess.Popen([sys.executable, "-c", second], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        told = "start.py: another start.py is setting the project up; waiting for it\n"
        while not (said := capfd.readouterr().err):
            assert waiting.poll() is None
        assert said == told
    assert waiting.communicate(timeout=60)[0] == "alone\n"
