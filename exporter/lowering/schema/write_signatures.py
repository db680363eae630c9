"""Writes `signatures.json` from the onnx package: `python -m onnx_parity.exporter.lowering.schema.write_signatures`.

A test compares the file with the package, and names this command where they differ.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import onnx.defs

from onnx_parity.exporter.lowering.schema.signature_table import LETTERS, TABLE, Version

__all__ = ["table_of_onnx"]


def table_of_onnx() -> dict[str, list[Version]]:
    """The table, from the onnx package that is installed."""
    table: dict[str, list[Version]] = {}
    schemas = onnx.defs.get_all_schemas_with_history()
    for schema in sorted(schemas, key=lambda schema: (schema.name, schema.since_version)):
        if not schema.domain:
            table.setdefault(schema.name, []).append(_version(schema))
    return table


def _version(schema: onnx.defs.OpSchema) -> Version:
    allowed = {each.type_param_str: _letters(each.allowed_type_strs) for each in schema.type_constraints}
    for parameter in (*schema.inputs, *schema.outputs):
        allowed.setdefault(parameter.type_str, _letters([parameter.type_str]))
    last = schema.inputs[-1] if schema.inputs else None
    variadic = last is not None and last.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Version(
        since=schema.since_version,
        deprecated=schema.deprecated,
        inputs=tuple(parameter.type_str for parameter in schema.inputs),
        outputs=tuple(parameter.type_str for parameter in schema.outputs),
        variadic=variadic,
        heterogeneous=last is not None and variadic and not last.is_homogeneous,
        letters=allowed,
    )


def _letters(strings: Iterable[str]) -> str:
    return "".join(sorted(LETTERS[string] for string in strings if string in LETTERS))


def main() -> None:
    """Write the file, with one line for each operator."""
    lines = [msgspec.json.encode({op: each}).strip(b"{}") for op, each in table_of_onnx().items()]
    TABLE.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


if __name__ == "__main__":
    main()
