"""The options of the matrix: by prefixed names in every pytest, by short names where declarations are run.

`--parity-seed` is always there. `--seed` is there too where a pytest runs declarations, unless another plug-in or a
`conftest.py` has an option of this name. Short names are therefore added last, when all others are known.
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_parity.harness import axes

if TYPE_CHECKING:
    # `parity` reads this file too, and pytest takes as long to import as all of its commands.
    import pytest

    from onnx_parity.harness.project import Settings

_GROUP = "parity"
_NOT_THERE = object()
#: What `--on` says for this machine without a cluster, for example to continue a run that began on one.
HERE = "here"

_EXPORTERS_HELP = (
    f"exporters: {', '.join(axes.EXPORTER_NAMES)}, or module:function for a function with the signature of "
    "torch.onnx.export (default: parity)"
)
_RUNTIMES_HELP = (
    f"runtimes: {', '.join(axes.RUNTIME_NAMES)}, or {axes.BACKEND}module for a module with the ONNX backend interface "
    "(default: one that supports the opset)"
)
_TRANSFORMS_HELP = (
    f"what is done to the model before it is run: {axes.NO_TRANSFORMATION}, {', '.join(axes.TRANSFORMATION_NAMES)}, "
    f"{', '.join(f'{each}:13' for each in axes.CONVERTERS)}, or module:function for a function from a model to a "
    f"model; several, one after the other, are joined with {axes.THEN} (default: {axes.NO_TRANSFORMATION})"
)
_FLAG: dict[str, Any] = {"action": "store_true", "default": False}

#: Each option by its short name. The settings of the project say what holds where the first ones are not given.
OPTIONS: dict[str, dict[str, Any]] = {
    "tier": {"choices": [*axes.Tier], "help": "how many opsets, dtypes and cases to run (default: default)"},
    "opsets": {"help": "opsets to run instead of those of the tier: 9,13-18"},
    "dtypes": {"help": "dtypes to run instead of those of the tier: float32,float16"},
    "devices": {"help": "devices: cpu,cuda (default: cpu, and one CUDA cell for each case)"},
    "exporters": {"help": _EXPORTERS_HELP},
    "captures": {"help": "how programs are captured: trace,script,exported_program (default: trace)"},
    "runtimes": {"help": _RUNTIMES_HELP},
    "transforms": {"help": _TRANSFORMS_HELP},
    "samples": {
        "metavar": "N",
        "help": "samples of each entry of torch's databases of operators and modules, evenly spread, 0 for all "
        "(default: 1 or 4; all in the full tier)",
    },
    "seed": {"type": int, "help": "the seed of inputs and weights (default: 0)"},
    "runs": {"type": Path, "help": "the folder in which the run is created (default: runs/ in the project's folder)"},
    "resume": {"type": Path, "metavar": "RUN", "help": "run the cells that a stopped run lacks, and add them to it"},
    "since": {
        "type": Path,
        "metavar": "RUN",
        "help": "run the cells that changes since that run may affect, and carry over the other records",
    },
    "reuse": {
        "type": Path,
        "metavar": "STORE",
        "help": "use the outcomes in that folder of cells whose model, inputs and all else are the same by their hash, "
        "and keep the others in it: a folder of this machine, a shared disk, a bucket that is mounted",
    },
    "reuse-days": {
        "type": float,
        "metavar": "DAYS",
        "help": "run cells whose outcome in the store is older, and compare; 0 for all (default: 7)",
    },
    "reuse-limit": {
        "type": float,
        "metavar": "MIB",
        "help": "how large the store may become, in MiB; what was not used for longest is removed (default: 8192)",
    },
    "shard": {"metavar": "K/N", "help": "run part K of N of the cells, the same part every time: 2/8"},
    "durations-of": {
        "type": Path,
        "metavar": "RUN",
        "help": "balance the shards, or the work of a cluster, by the durations of the cells in this run",
    },
    "on": {
        "metavar": "CLUSTER",
        "help": "run cells on a Ray cluster: host:port, or ray for RAY_ADDRESS or a cluster of this machine (default: "
        "here)",
    },
    "workers": {"type": int, "default": 0, "help": "workers on the cluster (default: one for each processor)"},
    "mixed": {**_FLAG, "help": "use nodes of the cluster that differ from this machine"},
    "stage-seconds": {"help": "time limit of a stage in seconds, 0 for none: 60,export=300 (default: 180)"},
    "memory-limit": {
        "help": "memory limit of a cell's process in MiB, 0 for none (default: half of the machine's memory)"
    },
    "in-process": {**_FLAG, "help": "run cells in pytest's own process, to debug them"},
    "pace": {**_FLAG, "help": "print a progress line instead of a dot for each cell"},
    "strict-unsupported": {**_FLAG, "help": "count cells that the exporter does not support as failures"},
}


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup(_GROUP, "the matrix of cells (where declarations are run, also without `parity-`)")
    for name, attributes in OPTIONS.items():
        group.addoption(prefix_option(name), dest=_destination(name), **attributes)


def add_short_names(parser: pytest.Parser, config: pytest.Config) -> None:
    """Add each option by its short name too, unless there is an option of this name. Each pair is one option."""
    group = parser.getgroup(_GROUP)
    for name, attributes in OPTIONS.items():
        if config.getoption(f"--{name}", _NOT_THERE) is _NOT_THERE:
            group.addoption(f"--{name}", dest=_destination(name), **{**attributes, "help": argparse.SUPPRESS})


def prefix_option(name: str) -> str:
    return f"--parity-{name}"


def with_prefix(word: str) -> str:
    """A word of a command line; one of our options by its prefixed name."""
    name, equals, value = word.partition("=")
    known = name.startswith("--") and name[2:] in OPTIONS
    return f"{prefix_option(name[2:])}{equals}{value}" if known else word


def like_option(word: str) -> str:
    """What to write instead of a word of a command line that is nearly one of our options; empty if it is none."""
    name = word.partition("=")[0]
    near = difflib.get_close_matches(name[2:], OPTIONS, n=1, cutoff=0.7) if name.startswith("--") else []
    return f"There is no option {name}. Did you mean --{near[0]}?" if near and near[0] != name[2:] else ""


def option(config: pytest.Config, name: str) -> Any:
    """The value of an option; None, or False for a flag, if it was not given."""
    return getattr(config.option, _destination(name))


def option_or_setting(config: pytest.Config, settings: Settings, name: str) -> str | None:
    """The value of an option on the command line, or else in the settings of the project."""
    given: str | None = option(config, name)
    return given if given is not None else settings.value_of(name)


def is_given(options: argparse.Namespace) -> bool:
    """Whether any of the options was given by its prefixed name."""
    return any(getattr(options, _destination(name), None) not in (None, False) for name in OPTIONS)


def _destination(name: str) -> str:
    return prefix_option(name)[2:].replace("-", "_")
