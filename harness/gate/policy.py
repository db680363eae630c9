"""What a gate does about each kind of finding, and from where on there is one: `gate.toml`."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec


class PolicyError(Exception):
    """A policy that cannot be read. The message says where and what it should hold."""


class Action(StrEnum):
    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


class Findings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done about each kind of finding."""

    new_failure: Action = Action.FAIL
    lost_coverage: Action = Action.FAIL
    not_run: Action = Action.FAIL
    unfinished: Action = Action.FAIL
    carried: Action = Action.IGNORE
    shrunk_headroom: Action = Action.WARN
    slower_export: Action = Action.WARN
    changed_failure: Action = Action.WARN
    cannot_run_here: Action = Action.WARN
    fix: Action = Action.WARN


_Factor = Annotated[float, msgspec.Meta(ge=1)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From where on a difference is a finding."""

    #: Headroom is the tolerance over the error. It is a finding if it is so many times smaller than it was,
    headroom_factor: _Factor = 10.0
    #: and below this: what is far from failing may move.
    headroom_below: _Amount = 10.0
    #: A case's exports are slower if they take so many times as long, the machine's speed taken out,
    export_factor: _Factor = 1.5
    #: and so many seconds longer in all.
    export_seconds: _Amount = 0.05
    #: The share of the baseline's cells that may not be run before it is a finding.
    not_run_share: _Share = 0.0


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    findings: Findings = Findings()
    thresholds: Thresholds = Thresholds()


def read_policy(path: Path) -> Policy:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Policy, strict=True)
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}.") from error
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{path}: {error}") from error
    except msgspec.ValidationError as error:
        raise PolicyError(
            f"{path}: {error}. [findings] may hold {', '.join(Findings.__struct_fields__)}, each one of "
            f"{', '.join(Action)}; [thresholds] may hold {', '.join(Thresholds.__struct_fields__)}, each a number: "
            "a factor is at least 1, a share between 0 and 1, and none is below 0."
        ) from error
