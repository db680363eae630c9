"""The entry point of the pytest plug-in. It adds options, and the hooks of `hooks.py` where declarations are run.

    pytest op_cases/pooling.py -k "max_pool2d and opset9"
    pytest -n auto --tier smoke

Every pytest in the environment loads this file, also those of suites that have nothing to do with the project: it
imports nothing slow and leaves them as they are. Declarations are run where the project has settings, where the command
line names a file of declarations or one of the options, or else from the first declaration that pytest meets.

Where the extra `harness` is not installed, there are no options, and a file of declarations is an error that says what
to install.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from onnx_parity.harness.extra import how_to_install, missing_packages

if TYPE_CHECKING:
    from onnx_parity.harness.project import Project

_MISSING = missing_packages()
_HOOKS = "parity-hooks"
_PROJECT: pytest.StashKey[Project] = pytest.StashKey()
_IS_WANTED: pytest.StashKey[bool] = pytest.StashKey()
_EXPECTATIONS, _NAMES = "expectations.toml", ("unsupported.toml", "warnings.toml")
#: The folder of the expectations of other runtimes and of transformations.
_FOLDER = "expectations"


class _OurModules(MetaPathFinder):
    """Finds the modules of the project as Python does without pytest.

    pytest rewrites the assertions in all modules of a distribution that has a plug-in. There are none in these that a
    test would show, and a first import would take more than twice as long.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, path, target) if fullname.startswith("onnx_parity.") else None


def _precede_rewriting() -> None:
    """Find them just before pytest does: what others have put before its finder, such as coverage, goes on."""
    of_pytest = (type(finder).__module__.startswith("_pytest.") for finder in sys.meta_path)
    place = next((place for place, is_pytests in enumerate(of_pytest) if is_pytests), None)
    if place is not None:
        sys.meta_path.insert(place, _OurModules())


_precede_rewriting()


@pytest.fixture
def assert_exports(tmp_path: Path) -> Callable[..., None]:
    """`onnx_parity.testing.assert_exports`, which writes the bundles of failures into the test's `tmp_path`."""
    from onnx_parity.exporter import testing

    return partial(testing.assert_exports, bundles=tmp_path)


def pytest_addoption(parser: pytest.Parser) -> None:
    if not _MISSING:
        from onnx_parity.harness.pytest_plugin.options import add_options

        add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Generator[None]:
    yield
    if _MISSING:
        return
    from onnx_parity.harness.project import SettingsError, find_project, holds_declarations
    from onnx_parity.harness.pytest_plugin.options import add_short_names, is_given

    try:
        project = find_project(early_config.invocation_params.dir)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from error
    early_config.stash[_PROJECT] = project
    wanted = project.is_configured or is_given(early_config.known_args_namespace)
    wanted = wanted or any(map(holds_declarations, _list_named_paths(early_config)))
    early_config.stash[_IS_WANTED] = wanted
    if wanted:
        add_short_names(parser, early_config)
        if gc.isenabled():
            # A seventh of the time to import torch and to collect is spent on looking for garbage, of which there is
            # none. The hooks end this with the collection.
            gc.disable()
            early_config.add_cleanup(gc.enable)


def _list_named_paths(config: pytest.Config) -> Iterator[Path]:
    """What the command line names, or else the configuration's test paths, or else the working directory."""
    # The values of options that are not known yet, the short names, are among them.
    words = [str(word).partition("::")[0] for word in config.known_args_namespace.file_or_dir]
    given = [word for word in words if (config.invocation_params.dir / word).exists()]
    test_paths = config.getini("testpaths")
    folder = config.rootpath if test_paths and not given else config.invocation_params.dir
    for name in given or test_paths or ["."]:
        yield folder / name


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """For `-n auto` of `parity run`: no worker where there are few cells; None leaves it to pytest-xdist."""
    if _MISSING or not config.stash.get(_IS_WANTED, False):
        return None
    from onnx_parity.harness.project import holds_declarations
    from onnx_parity.harness.pytest_plugin.few_cells import are_few
    from onnx_parity.harness.pytest_plugin.options import option, option_or_setting

    project = config.stash[_PROJECT]
    places = list(_list_named_paths(config))
    if not option(config, "pace") or not all(map(holds_declarations, places)):
        return None
    project.make_importable()
    few = are_few(places, config.option.keyword, partial(option_or_setting, config, project.settings))
    return 0 if few else None


def pytest_configure(config: pytest.Config) -> None:
    if config.stash.get(_IS_WANTED, False):
        _add_hooks(config)


def _add_hooks(config: pytest.Config) -> None:
    # Whether there is a GPU is asked by the harness and by libraries that declarations import. torch then asks the
    # driver. Otherwise it initialises CUDA, which cannot be used in the processes that are forked from this one.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    from onnx_parity.harness.pytest_plugin import hooks

    if not config.pluginmanager.has_plugin(_HOOKS):
        config.stash[hooks.PROJECT] = config.stash[_PROJECT]
        config.pluginmanager.register(hooks, _HOOKS)


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> pytest.Collector | None:
    # A test module that does not import the vocabulary has no declarations; importing it here would import torch.
    vocabulary = sys.modules.get("onnx_parity.harness.case")
    if vocabulary is None or not isinstance(obj, vocabulary.Declaration):
        return None
    _meet_declarations(collector)
    from onnx_parity.harness.pytest_plugin.hooks import collector_of

    return collector_of(collector, name, obj)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # Other projects' files may have this name.
    of_subject = file_path.suffix == ".toml" and file_path.parent.name == _FOLDER
    folder = file_path.parents[1] if of_subject else file_path.parent
    named = of_subject or file_path.name in (_EXPECTATIONS, *_NAMES)
    if not named or _MISSING:
        return None
    from onnx_parity.harness.project import holds_declarations

    if not holds_declarations(folder):
        return None
    _meet_declarations(parent)
    from onnx_parity.harness.pytest_plugin.lists import ExpectationsFile, NamesFile

    kind = NamesFile if file_path.name in _NAMES and not of_subject else ExpectationsFile
    collector: pytest.Collector = kind.from_parent(parent, path=file_path)
    return collector


def _meet_declarations(met: pytest.Collector) -> None:
    """Add the hooks, where it was unknown before the collection that there are declarations."""
    if _MISSING:
        raise met.CollectError(how_to_install(f"{met.path} has declarations, which", _MISSING))
    if hasattr(met.config, "workerinput") and not met.config.pluginmanager.has_plugin(_HOOKS):
        # It is too late: the process that gives out the cells has no hooks either.
        raise met.CollectError(
            f"{met.path} has declarations. To run them in several processes, name the file or its folder on the "
            "command line, or add a table [tool.parity] to the pyproject.toml of the project."
        )
    _add_hooks(met.config)
