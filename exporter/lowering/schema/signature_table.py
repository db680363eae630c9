"""The signatures of all ONNX operators, from `signatures.json`, which `write_signatures.py` writes.

They are not asked of `onnx.defs`, because its first answer takes 12 ms, in which it registers all operators. That was a
tenth of the time of a process's first export of a small model. Only what the file does not have is asked of it: what a
user has registered there, or what a later ONNX has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import torch

if TYPE_CHECKING:
    import onnx.defs

__all__ = ["TABLE", "Version", "versions", "versions_of_onnx"]

TABLE = Path(__file__).with_name("signatures.json")

_DTYPES = {
    "f": ("float", torch.float32),
    "d": ("double", torch.float64),
    "e": ("float16", torch.float16),
    "E": ("bfloat16", torch.bfloat16),
    "l": ("int64", torch.int64),
    "i": ("int32", torch.int32),
    "h": ("int16", torch.int16),
    "b": ("int8", torch.int8),
    "B": ("uint8", torch.uint8),
    "H": ("uint16", torch.uint16),
    "I": ("uint32", torch.uint32),
    "L": ("uint64", torch.uint64),
    "1": ("float8e4m3fn", torch.float8_e4m3fn),
    "2": ("float8e4m3fnuz", torch.float8_e4m3fnuz),
    "3": ("float8e5m2", torch.float8_e5m2),
    "4": ("float8e5m2fnuz", torch.float8_e5m2fnuz),
    "?": ("bool", torch.bool),
    "F": ("complex64", torch.complex64),
    "D": ("complex128", torch.complex128),
}
#: The letters of ONNX's types.
_LETTERS = {f"tensor({name})": letter for letter, (name, _) in _DTYPES.items()}


class Version(msgspec.Struct, frozen=True, array_like=True):
    """What an operator takes and gives from an opset on."""

    since: int
    deprecated: bool
    #: The names of the types of the inputs and of the outputs.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Whether the last input stands for any number of inputs, and whether these may have different types.
    variadic: bool
    heterogeneous: bool
    #: The letters of the dtypes that each type allows.
    letters: dict[str, str]

    @classmethod
    def of(cls, schema: onnx.defs.OpSchema) -> Version:
        letters = {each.type_param_str: _letters(each.allowed_type_strs) for each in schema.type_constraints}
        for parameter in (*schema.inputs, *schema.outputs):
            letters.setdefault(parameter.type_str, _letters([parameter.type_str]))
        last = schema.inputs[-1] if schema.inputs else None
        variadic = last is not None and last.option == type(schema).FormalParameterOption.Variadic
        return cls(
            since=schema.since_version,
            deprecated=schema.deprecated,
            inputs=tuple(parameter.type_str for parameter in schema.inputs),
            outputs=tuple(parameter.type_str for parameter in schema.outputs),
            variadic=variadic,
            heterogeneous=last is not None and variadic and not last.is_homogeneous,
            letters=letters,
        )

    def allowed(self) -> dict[str, frozenset[torch.dtype]]:
        """The dtypes that each type allows. (Types that are not tensors have none.)"""
        return {name: frozenset(_DTYPES[letter][1] for letter in letters) for name, letters in self.letters.items()}


def versions(op: str) -> tuple[Version, ...]:
    """The versions of an operator, from the first on; none for a name that ONNX does not have."""
    raw = _table().get(op)
    return versions_of_onnx(op) if raw is None else msgspec.json.decode(raw, type=tuple[Version, ...])


def versions_of_onnx(op: str) -> tuple[Version, ...]:
    """The versions that the installed onnx has."""
    import onnx.defs

    if not onnx.defs.has(op):
        return ()
    schemas = (schema for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op and not schema.domain)
    return tuple(Version.of(schema) for schema in sorted(schemas, key=lambda schema: schema.since_version))


def _letters(strings: Iterable[str]) -> str:
    return "".join(sorted(_LETTERS[string] for string in strings if string in _LETTERS))


@cache
def _table() -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(TABLE.read_bytes(), type=dict[str, msgspec.Raw])
