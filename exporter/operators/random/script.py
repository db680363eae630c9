"""Seeds that scripts set."""

from __future__ import annotations

from typing import Any

import torch

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.script.parse import Step
from onnx_parity.exporter.script.steps import step_of

__all__: list[str] = []


@step_of("aten::manual_seed")
def manual_seed(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    *generators, seed = arguments
    generator = generators[0] if generators else None
    return torch.manual_seed(seed) if generator is None else generator.manual_seed(seed)
