"""The project's files agree with each other: supported, pinned and shipped versions."""

from __future__ import annotations

import configparser
import re
import subprocess
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import start

ROOT = Path(start.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
#: The folders of the clone, and where an installation has each of them.
INSTALLED: dict[str, str] = WHEEL["sources"]
#: The section of tox.ini with a pair of torch and torchvision for every supported torch.
TORCHES = "testenv:torch{211,212,213,214,215}"
SUPPORTED = [f"{major}.{minor}" for major, minor in start.SUPPORTED]


def pins(text: str) -> dict[str, Version]:
    requirements = [Requirement(line) for line in text.splitlines() if line and not line.startswith(("#", "-"))]
    return {
        canonicalize_name(requirement.name): Version(next(iter(requirement.specifier)).version)
        for requirement in requirements
    }


SHARED_PINS = pins((ROOT / "constraints-shared.txt").read_text())
PINS = SHARED_PINS | pins((ROOT / "constraints.txt").read_text())


def requirements() -> dict[str, Requirement]:
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    texts: list[str] = PROJECT["project"]["dependencies"] + [text for extra in extras.values() for text in extra]
    parsed = [Requirement(text) for text in texts]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


REQUIREMENTS = {name: requirement for name, requirement in requirements().items() if name != "onnx-parity"}


@pytest.mark.parametrize("name", sorted(REQUIREMENTS))
def test_pin_satisfies_requirement(name: str) -> None:
    assert PINS[name] in REQUIREMENTS[name].specifier


def test_pythons_are_the_same_everywhere() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    versions = re.search(r"python: \[(.*)\]", workflow)
    assert versions
    assert re.findall(r"[\d.]+", versions[1]) == SUPPORTED
    classifiers: list[str] = PROJECT["project"]["classifiers"]
    prefix = "Programming Language :: Python :: "
    assert [text.removeprefix(prefix) for text in classifiers if text.startswith(prefix)] == SUPPORTED
    allowed = SpecifierSet(PROJECT["project"]["requires-python"])
    assert [f"3.{minor}" for minor in range(20) if f"3.{minor}" in allowed] == SUPPORTED


def torch_pairs() -> dict[str, dict[str, Version]]:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    lines = tox[TORCHES]["deps"].split("\n")
    pairs: dict[str, dict[str, Version]] = {}
    for line in lines:
        environment, separator, pin = line.partition(": ")
        if separator:
            pairs.setdefault(environment, {}).update(pins(pin))
    return pairs


def test_every_supported_torch_has_an_environment() -> None:
    supported = REQUIREMENTS["torch"].specifier
    wanted = [f"torch2{minor}" for minor in range(50) if f"2.{minor}" in supported]
    pairs = torch_pairs()
    assert sorted(pairs) == wanted
    for environment, pair in pairs.items():
        assert f"torch{pair['torch'].major}{pair['torch'].minor}" == environment
        assert pair["torch"] in supported
        assert pair["torchvision"] in REQUIREMENTS["torchvision"].specifier


def test_every_supported_version_has_an_environment_for_docs_versions() -> None:
    """The pinned environment is one of them. The others change one version each."""
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    (section,) = [name for name in tox.sections() if name.startswith("testenv:versions-")]
    factors = set(section.removeprefix("testenv:versions-").strip("{}").split(","))
    pairs = torch_pairs()
    pinned = {f"py{SUPPORTED[0].replace('.', '')}", f"torch{PINS['torch'].major}{PINS['torch'].minor}"}
    wanted = {*(f"py{version.replace('.', '')}" for version in SUPPORTED), *pairs} - pinned
    assert wanted | {"pinned"} <= factors
    deps = [line for line in tox[section]["deps"].split("\n") if line]
    assert deps == [line for line in tox[TORCHES]["deps"].split("\n") if line and line.partition(":")[0] not in pinned]
    replaced = re.findall(
        r"(\w+): python -m pip install --quiet --no-deps (\w+)==([\d.]+)", tox[section]["commands_pre"]
    )
    for factor, package, version in replaced:
        assert factor == {"onnxruntime": "ort", "onnx": "onnx"}[package] + version.replace(".", "")
        assert version in REQUIREMENTS[package].specifier
        assert Version(version) != PINS[package]
    assert {factor for factor, _, _ in replaced} == {each for each in factors if each.startswith(("ort", "onnx"))}
    assert len(replaced) == 4


def test_docs_versions_says_what_came_of_every_supported_version() -> None:
    """Each has a row, or stands in the list of those that were not run."""
    text = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    for version in SUPPORTED:
        assert f"\n| {version}." in text or f"\n- python {version}" in text
    for pair in torch_pairs().values():
        assert f"| {pair['torch']} |" in text or f"\n- torch {pair['torch']}" in text


def test_developed_with_a_pair_that_is_also_an_environment() -> None:
    assert {name: PINS[name] for name in ("torch", "torchvision")} in torch_pairs().values()
    assert not {"torch", "torchvision"} & SHARED_PINS.keys()


def test_pre_commit_formats_with_the_pinned_ruff() -> None:
    revision = re.search(r"ruff-pre-commit\n +rev: v(.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert revision
    assert Version(revision[1]) == PINS["ruff"]


@pytest.mark.parametrize("folder", INSTALLED)
def test_folder_is_installed_in_the_one_package(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").is_file()
    assert INSTALLED[folder] == f"onnx_parity/{folder}"
    # In the clone, links stand where an installation has the folders themselves.
    assert (ROOT / "onnx_parity" / folder).resolve() == ROOT / folder


def test_every_folder_is_packaged() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders - {"tests", "benchmarks", "documents", "onnx_parity"} == set(INSTALLED)
    assert set(WHEEL["only-include"]) == {"onnx_parity", *INSTALLED}
    assert {f"/onnx_parity/{folder}" for folder in INSTALLED} <= set(WHEEL["exclude"])


def test_the_sdist_has_all_that_git_tracks() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert {name.partition("/")[0] for name in tracked.splitlines()} == set(included)


_NOTICE = re.compile(r"copyright|@license|SPDX-License|all rights reserved", re.IGNORECASE)


def test_the_wheel_carries_nothing_of_others() -> None:
    """No file of it has a notice of another licence, and the README names the licence of each dependency."""
    folders = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    tracked = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in tracked.stdout.splitlines() if not (ROOT / name).is_symlink()]
    assert len(files) > 800
    noticed = [file for file in files if _NOTICE.search(file.read_text(encoding="utf-8"))]
    assert noticed == []
    project = PROJECT["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["harness"]]
    licences = (ROOT / "README.md").read_text().partition("## Licences")[2]
    assert [text for text in needed if Requirement(text).name not in licences] == []


def test_package_ships_its_types() -> None:
    assert (ROOT / "onnx_parity" / "py.typed").is_file()


def test_console_command_and_plugin_are_installed() -> None:
    scripts: dict[str, str] = PROJECT["project"]["scripts"]
    (command,) = entry_points(group="console_scripts", name="parity")
    assert command.value == scripts["parity"]
    assert callable(command.load())
    plugins: dict[str, str] = PROJECT["project"]["entry-points"]["pytest11"]
    (plugin,) = entry_points(group="pytest11", name="onnx_parity")
    assert plugin.value == plugins["onnx_parity"]
    assert plugin.load().__name__ == plugin.value
