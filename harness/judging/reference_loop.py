"""ONNX's Loop for onnx.reference, as it is specified, so that onnx.reference is a witness for graphs with loops too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx.reference.ops import op_loop


class Loop(op_loop.Loop):
    """onnx.reference's own Loop concatenates scan outputs where ONNX stacks them, and needs a condition.

    https://github.com/onnx/onnx/blob/main/onnx/reference/ops/op_loop.py
    """

    op_domain = ""

    def _run(
        self,
        M: Any,
        cond: Any,
        *args: Any,
        context: Mapping[str, Any] | None = None,
        body: object = None,
        attributes: Mapping[str, Any] | None = None,
        bindings: Any = None,
    ) -> Sequence[Any]:
        loop: Any = self
        number_name, condition_name, *names = loop.body.input_names
        goes_on, number, carried = cond is None or bool(cond), 0, list(args)
        scanned: list[list[Any]] = [[] for _ in range(self.K)]
        while goes_on and (M is None or number < M):
            given = {number_name: np.array(number, np.int64), condition_name: np.array(goes_on)}
            given |= dict(zip(names, carried, strict=True))
            outputs = loop._run_body({**(context or {}), **given}, attributes=attributes, bindings=bindings)
            # Without a condition, what the body returns as one is ignored.
            goes_on, carried = cond is None or bool(outputs[0]), outputs[1 : 1 + self.N]
            for before, now in zip(scanned, outputs[1 + self.N :], strict=True):
                before.append(now)
            number += 1
        # Without a round, onnx.reference does not know the shapes of scan outputs: numpy raises an error then.
        found: Sequence[Any] = self._check_and_fix_outputs((*carried, *map(np.stack, scanned)))
        return found
