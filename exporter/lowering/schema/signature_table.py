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

from onnx_parity.exporter.dtypes import TO_ONNX

if TYPE_CHECKING:
    import onnx.defs

__all__ = ["LETTERS", "TABLE", "Version", "versions", "versions_of_onnx"]

TABLE = Path(__file__).with_name("signatures.json")

#: The letters that stand for dtypes, here and in the table of onnxruntime's kernels.
LETTERS: dict[str, torch.dtype] = {
    "f": torch.float32,
    "d": torch.float64,
    "e": torch.float16,
    "E": torch.bfloat16,
    "l": torch.int64,
    "i": torch.int32,
    "h": torch.int16,
    "b": torch.int8,
    "B": torch.uint8,
    "H": torch.uint16,
    "I": torch.uint32,
    "L": torch.uint64,
    "1": torch.float8_e4m3fn,
    "2": torch.float8_e4m3fnuz,
    "3": torch.float8_e5m2,
    "4": torch.float8_e5m2fnuz,
    "?": torch.bool,
    "F": torch.complex64,
    "D": torch.complex128,
}


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
        """The version that a schema of the onnx package describes."""
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
        return {name: frozenset(LETTERS[letter] for letter in letters) for name, letters in self.letters.items()}


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


def _letters(types: Iterable[str]) -> str:
    """The letters of types as ONNX writes them, `tensor(float)`."""
    letters = {f"tensor({TO_ONNX[dtype].name.lower()})": letter for letter, dtype in LETTERS.items()}
    return "".join(sorted(letters[each] for each in types if each in letters))


@cache
def _table() -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(TABLE.read_bytes(), type=dict[str, msgspec.Raw])
