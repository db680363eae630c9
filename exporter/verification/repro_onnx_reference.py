"""onnx.reference, the specification's own evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx


def load(model: bytes | Path, new_ops: Sequence[Any] = ()) -> Callable[[Mapping[str, Any]], Sequence[object]]:
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    evaluator = ReferenceEvaluator(proto, new_ops=list(new_ops))
    return lambda inputs: list(evaluator.run(None, dict(inputs)))
