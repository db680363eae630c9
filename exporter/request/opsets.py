"""Opsets: those that can be exported to, the newest that onnxruntime runs, and the versions of custom domains."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_parity.exporter.errors import ArgumentError, OpsetError

__all__ = [
    "DEFAULT_OPSET",
    "IR_VERSIONS",
    "NEWEST_OF_ONNXRUNTIME",
    "OPSETS",
    "checked_custom_opsets",
    "checked_opset",
    "checked_runtime",
    "checked_weight_bits",
    "refuse_unused_opsets",
]

#: The opsets that this exporter writes.
OPSETS = range(7, 29)
#: The opset if the caller gives none.
DEFAULT_OPSET = 18
#: The version of ONNX's format that each opset came with. (Importing `onnx.helper` to ask takes 2 ms.)
IR_VERSIONS = dict(zip(OPSETS, (3, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14), strict=True))
#: onnxruntime 1.31 runs models of opsets up to this one.
NEWEST_OF_ONNXRUNTIME = 26


def checked_runtime(target: str | None) -> str | None:
    """The runtime whose own operators a model may have, if there is one."""
    if target not in (None, "onnxruntime"):
        raise ArgumentError(f'target is {target!r}: give "onnxruntime", or None for a model that any runtime runs')
    return target


def checked_weight_bits(bits: int | None, opset: int, verify: bool) -> int | None:
    """How many bits weights are stored with, if not with those that they have. They are no longer equal then."""
    if bits is None:
        return None
    if bits not in (4, 8):
        raise ArgumentError(f"weight_bits is {bits!r}: give 4 or 8, or None for weights as the program has them")
    if opset < 21:
        raise ArgumentError(f"weight_bits={bits} needs an opset from 21 on, and opset_version is {opset}")
    if verify:
        raise ArgumentError(
            f"weight_bits={bits} rounds the weights, so that the model's results are not the program's, which "
            "verify=True would say: verify an export without weight_bits, and compare the results of both models"
        )
    return bits


def checked_opset(opset_version: int | None) -> int:
    """The requested opset, or the default one for None. Refuses an opset that this exporter does not write."""
    if opset_version is None:
        return DEFAULT_OPSET
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise OpsetError(f"opset_version is {opset_version!r}: give an int from {OPSETS[0]} to {OPSETS[-1]}")
    if opset_version not in OPSETS:
        raise OpsetError(
            f"this exporter does not write opset_version={opset_version}, but only opsets {OPSETS[0]} to "
            f"{OPSETS[-1]}. It never substitutes another one: choose the newest that your runtime supports."
        )
    return opset_version


def checked_custom_opsets(custom_opsets: object) -> Mapping[str, int]:
    """The versions of domains other than ONNX's, by domain."""
    if custom_opsets is None:
        return {}
    if not isinstance(custom_opsets, Mapping):
        raise ArgumentError(f"custom_opsets is {custom_opsets!r}: give a dict of versions, {{'my_domain': 2}}")
    return custom_opsets


def refuse_unused_opsets(custom_opsets: Mapping[str, int], imported: Mapping[str, int]) -> None:
    """Refuse versions of domains that the model does not use, because their names are most likely misspelt."""
    unused = [domain for domain in custom_opsets if domain not in imported]
    if unused:
        raise ArgumentError(
            f"custom_opsets names {unused[0]!r}, but the model has no operator of this domain: its domains are "
            f"{', '.join(domain or 'ai.onnx' for domain in imported)}"
        )
