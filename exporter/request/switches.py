"""Arguments that are True or False."""

from __future__ import annotations

import numpy

from onnx_parity.exporter.errors import ArgumentError

__all__ = ["check_switches"]


def check_switches(**switches: object) -> None:
    """Refuse values other than True and False. Often they are another argument at the wrong position."""
    for name, given in switches.items():
        if not isinstance(given, int | numpy.bool_) or given not in (0, 1):
            raise ArgumentError(
                f"{name} is {given!r}: give True or False. Give the arguments after `f` by name, since versions of "
                "torch.onnx differ in their order"
            )
