"""Sets the project up in `.venv` and runs one of its commands there: `python3 start.py matrix`.

It needs only Python: no pip, no ensurepip, no permission to write to the system's packages. The configuration files of
the project define what the commands do. This script sets up the environment in which they run.
"""

import base64
import configparser
import hashlib
import html.parser
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14))

# This check comes before annotations that an older Python cannot evaluate.
if sys.version_info[:2] not in SUPPORTED:
    _found = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
    sys.exit(
        f"onnx-parity needs Python 3.11 to 3.14; {sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}. "
        + (f"Found here: {_found[0]}. " if _found else "")
        + f"Run: {_found[0] if _found else 'python3.14'} start.py {' '.join(sys.argv[1:])}".rstrip()
    )

from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent
DEFAULT_INDEX = "https://pypi.org/simple"

#: The pip that is downloaded if Python comes without one.
PIP_WHEEL = "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"


class SetupError(Exception):
    """The environment cannot be set up on this machine. The message says why, and what to do."""


@dataclass(frozen=True)
class Command:
    """A command of this script: its purpose, and the steps that it runs in the environment.

    The user's arguments are passed to the first step. Later steps run even if earlier ones failed, so that one call
    shows all errors of format and style.
    """

    purpose: str
    steps: tuple[tuple[str, ...], ...]


COMMANDS = {
    "matrix": Command("run the default matrix, and show its report as it fills", (("parity", "run", "--serve"),)),
    "tests": Command("run the tests and the default tier of the matrix", (("pytest", "-n", "auto"),)),
    "coverage": Command(
        "run the same, and print which statements of the project they run",
        (("python", "-m", "pytest", "-n", "auto", "-p", "tests.statement_coverage"),),
    ),
    "lint": Command("check format and style with ruff", (("ruff", "check"), ("ruff", "format", "--check"))),
    "types": Command("check types with mypy", (("mypy",),)),
    "index": Command(
        "write which file of the exporter has which rules of operators", (("python", "-m", "documents", "index"),)
    ),
    "bench": Command("measure export times and compare them with torch.onnx", (("python", "-m", "benchmarks"),)),
}


def usage() -> str:
    lines = ["usage: python3 start.py COMMAND [ARGUMENTS...]", ""]
    lines += [f"  {name:<10}{command.purpose}" for name, command in COMMANDS.items()]
    lines += ["", "The first call sets up .venv. Arguments are passed to the command: python3 start.py tests -k elu"]
    return "\n".join(lines)


@dataclass(frozen=True)
class Environment:
    """The project's virtual environment."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        return self.programs / ("python.exe" if os.name == "nt" else "python")

    @property
    def stamp(self) -> Path:
        return self.folder / "set-up-for"

    def variables(self) -> dict[str, str]:
        """The variables of an activated shell. `pip install --user` would mean nothing here, and is switched off.

        Many containers tell Python not to keep bytecode, to be smaller. Here every process of a run would compile the
        project again, which takes a second.
        """
        return {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "VIRTUAL_ENV": str(self.folder),
            "PATH": os.pathsep.join([str(self.programs), os.environ.get("PATH", os.defpath)]),
            "PIP_USER": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def run(self, *arguments: str) -> int:
        """Run a program of the environment from the project's root and return its exit status."""
        program = shutil.which(arguments[0], path=str(self.programs))
        if program is None:
            raise SetupError(
                f"{arguments[0]} cannot be run: it is not in {self.programs}. Delete {self.folder} and run this again."
            )
        return subprocess.run([program, *arguments[1:]], cwd=ROOT, env=self.variables(), check=False).returncode

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python and capture its output."""
        command = [str(self.python), *arguments]
        return subprocess.run(command, env=self.variables(), capture_output=True, text=True, check=False)

    def has_pip(self) -> bool:
        return self.ask("-c", "import pip").returncode == 0

    def is_of_this_python(self) -> bool:
        if not self.python.exists():
            return False
        version = self.ask("-c", "import sys; print(*sys.version_info[:2])").stdout
        return version.split() == [str(part) for part in sys.version_info[:2]]


def set_up(environment: Environment) -> None:
    """Install what pyproject.toml and the constraints require, unless it is installed already."""
    wanted = fingerprint()
    if environment.python.exists() and environment.stamp.exists() and environment.stamp.read_text() == wanted:
        return
    if not environment.is_of_this_python():
        create(environment)
    if not environment.has_pip():
        bring_pip(environment)
    environment.stamp.unlink(missing_ok=True)
    say(f"installing the project and torch into {environment.folder}; this takes some minutes, once")
    # Compiling all files takes as long as installing them. Python compiles those that are imported.
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "-c", "constraints.txt", "-e", ".[dev]")
    if environment.run("python", *install) != 0:
        raise SetupError(
            "pip could not install the project. Its error message is above. Fix its cause and run this again. If this "
            "machine reaches the internet through a proxy, set HTTPS_PROXY first."
        )
    environment.stamp.write_text(wanted)


def set_up_or_explain(environment: Environment) -> None:
    """Set up, and explain what the system does not allow: a full disk, a folder that may not be written."""
    try:
        set_up(environment)
    except OSError as error:
        raise SetupError(
            f"{environment.folder} cannot be set up: {error}. It needs some gigabytes in a folder that you may write "
            "to. Free space, or clone the project into a folder of yours, and run this again."
        ) from error


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other start.py sets up this project: two at once would spoil the environment."""
    with Path(__file__).open("rb") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another start.py is setting the project up; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fingerprint() -> str:
    """A hash of everything that determines what is installed."""
    digest = hashlib.sha256(f"{sys.version_info[0]}.{sys.version_info[1]} {ROOT}".encode())
    for name in ("pyproject.toml", "constraints.txt", "constraints-shared.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def create(environment: Environment) -> None:
    """Create an empty environment of the running Python, without pip: not every Python can install it."""
    say(f"{'replacing' if environment.folder.exists() else 'creating'} {environment.folder} with {sys.executable}")
    command = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(environment.folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        output = (made.stdout + made.stderr).strip()
        raise SetupError(f"{' '.join(command)} failed:\n{output}\nUse another Python, or repair this one.")


def bring_pip(environment: Environment) -> None:
    """Install pip: the one that comes with Python, or otherwise its wheel from the package index."""
    if environment.ask("-m", "ensurepip", "--default-pip").returncode == 0:
        return
    index = package_index()
    say(f"this Python has no ensurepip; downloading {PIP_WHEEL} from {without_password(index)}")
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / PIP_WHEEL
        wheel.write_bytes(fetch_pip(index))
        # A wheel is a zip file, and Python runs the package inside it.
        if environment.run("python", f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)) != 0:
            raise SetupError(
                f"{PIP_WHEEL} could not be installed. Its error message is above. Install your system's python3-venv."
            )


def fetch_pip(index: str) -> bytes:
    """The content of pip's wheel, checked against the hash above."""
    page = f"{index.rstrip('/')}/pip/"
    links = Links()
    links.feed(fetch(page).decode())
    url = next((link for link in links.found if urllib.parse.urlsplit(link).path.endswith(f"/{PIP_WHEEL}")), None)
    if url is None:
        raise SetupError(
            f"{without_password(page)} does not list {PIP_WHEEL}. Install your system's python3-venv, "
            "or set PIP_INDEX_URL to an index that has it."
        )
    target = urllib.parse.urljoin(page, url)
    wheel = fetch(target)
    found = hashlib.sha256(wheel).hexdigest()
    if found != PIP_SHA256:
        raise SetupError(
            f"{without_password(target.partition('#')[0])} is not the released {PIP_WHEEL}: its sha256 is {found}, "
            f"{PIP_SHA256} was expected. Nothing of it was run. Ask the operator of the index."
        )
    return wheel


class Links(html.parser.HTMLParser):
    """The targets of the links of a page, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def package_index() -> str:
    """The package index that pip would use: from its variable or its configuration files, otherwise PyPI."""
    return pip_setting("index-url") or DEFAULT_INDEX


def pip_setting(name: str) -> str | None:
    """A setting of pip, looked up in the order that pip uses."""
    variable = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
    if variable:
        return variable
    settings = configparser.RawConfigParser(strict=False)
    settings.read(pip_configuration_files(), encoding="utf-8")
    for section in ("install", "global"):
        if settings.has_option(section, name):
            return settings.get(section, name).strip()
    return None


def pip_configuration_files() -> list[Path]:
    """The paths of pip's configuration files, the ones with the highest priority last."""
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    home = Path.home()
    personal = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", personal / "pip/pip.conf"]
    return files + ([Path(chosen)] if chosen else [])


def fetch(url: str) -> bytes:
    """The body of a page of the index, requested with pip's certificate and the user name and password of the URL."""
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(without_password(url), headers={"Accept": "text/html, */*;q=0.1"})
    if parts.username is not None:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        # The header is not sent to other hosts to which the index redirects.
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
    trust = ssl.create_default_context(cafile=pip_setting("cert")) if parts.scheme == "https" else None
    try:
        with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
            body: bytes = answer.read()
    except (OSError, urllib.error.URLError) as error:
        raise SetupError(
            f"{without_password(url)} cannot be read: {error}. Install your system's python3-venv, set PIP_INDEX_URL "
            "to an index that can be reached, or HTTPS_PROXY to the proxy of this machine."
        ) from error
    return body


def without_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def say(what: str) -> None:
    print(f"start.py: {what}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(usage())
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        if arguments:
            say(f"there is no command {arguments[0]!r}")
        print(usage(), file=sys.stderr)
        return 2
    environment = Environment(ROOT / ".venv")
    first, *later = COMMANDS[arguments[0]].steps
    try:
        with alone():
            set_up_or_explain(environment)
        statuses = [environment.run(*first, *arguments[1:])] + [environment.run(*step) for step in later]
    except SetupError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted. What is set up is kept: run the same command again to go on")
        return 130
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
