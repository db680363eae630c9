"""Causes: what failures of different cases, dtypes and opsets have in common."""

from __future__ import annotations

import re
from typing import NamedTuple

from onnx_parity.harness.record import Record, Stage

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
#: The stages that compare values.
_COMPARING = (Stage.COMPARE, Stage.RERUN_SIZES, Stage.RERUN_VALUES)


class Cause(NamedTuple):
    """Failures with equal causes are listed together."""

    status: str
    stage: str
    blame: str
    #: The error without the numbers and names that differ from case to case; of wrong values, the operator.
    what: str


def cause_of(record: Record) -> Cause:
    text = record.error or record.reason
    if record.metrics is not None and record.stage in _COMPARING:
        what = f"wrong values of {record.aten[0] if len(set(record.aten)) == 1 else record.name}"
    else:
        what = _NUMBER.sub("#", _QUOTED.sub("'…'", text.replace(record.case, "…")))
    return Cause(record.status.value, record.stage.value, (record.blame or "") and str(record.blame), what[:200])
