"""The policy of a gate, `gate.toml`: the action for each kind of finding, and the thresholds for findings."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec


class PolicyError(Exception):
    """A policy that cannot be read. The message names the file, the mistake, and the valid contents of a policy."""


class Action(StrEnum):
    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


class Findings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action for each kind of finding."""

    new_failure: Action = Action.FAIL
    lost_coverage: Action = Action.FAIL
    not_run: Action = Action.FAIL
    unfinished: Action = Action.FAIL
    carried: Action = Action.IGNORE
    reused: Action = Action.IGNORE
    outdated: Action = Action.FAIL
    shrunk_headroom: Action = Action.WARN
    slower_export: Action = Action.WARN
    changed_failure: Action = Action.WARN
    cannot_run_here: Action = Action.WARN
    fix: Action = Action.WARN


_Factor = Annotated[float, msgspec.Meta(ge=1)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How large a difference has to be to count as a finding."""

    #: Headroom is the tolerance divided by the error. Its loss is a finding if it decreased by this factor
    headroom_factor: _Factor = 10.0
    #: and is below this value, since losses far from a failure do not matter.
    headroom_below: _Amount = 10.0
    #: A case's exports count as slower if they take longer by this factor, corrected for the machine's speed,
    export_factor: _Factor = 1.5
    #: and in total by this many seconds.
    export_seconds: _Amount = 0.05
    #: Up to this share of the baseline's cells may be missing from the run.
    not_run_share: _Share = 0.0
    #: Outcomes that were reused may have been found up to so many days before the run.
    reused_days: _Amount = 7.0


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    findings: Findings = Findings()
    thresholds: Thresholds = Thresholds()


def read_policy(path: Path) -> Policy:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Policy, strict=True)
    except OSError as error:
        raise PolicyError(
            f"The policy {path} cannot be read: {error.strerror}. Name a TOML file such as gate.toml."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{path}: {error}") from error
    except msgspec.ValidationError as error:
        raise PolicyError(
            f"{path}: {error}. [findings] may contain {', '.join(Findings.__struct_fields__)}, each one of "
            f"{', '.join(Action)}; [thresholds] may contain {', '.join(Thresholds.__struct_fields__)}, each a number: "
            "a factor is at least 1, a share between 0 and 1, and none is below 0."
        ) from error
