"""Checks of arguments: switches are True or False, and names are Unicode, as ONNX stores them as UTF-8."""

from __future__ import annotations

import numpy

from onnx_parity.exporter.errors import ArgumentError

__all__ = ["check_switches", "checked_unicode"]

_KINDS = (int, numpy.bool_)


def check_switches(**switches: object) -> None:
    """Refuse values other than True and False. Often they are another argument at the wrong position."""
    for name, given in switches.items():
        if not isinstance(given, _KINDS) or given not in (0, 1):
            raise ArgumentError(
                f"{name} is {given!r}: give True or False. Give the arguments after `f` by name, since versions of "
                "torch.onnx differ in their order"
            )


def checked_unicode(what: str, name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{what} contains {name!r}, which is not valid Unicode: ONNX stores names as UTF-8. Give another name"
        ) from None
    return name
