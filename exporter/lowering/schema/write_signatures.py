"""Writes `signatures.json` from the onnx package: `python -m onnx_parity.exporter.lowering.schema.write_signatures`.

A test compares the file with the package, and names this command where they differ.
"""

from __future__ import annotations

import msgspec
import onnx.defs

from onnx_parity.exporter.lowering.schema.signature_table import TABLE, Version, versions_of_onnx

__all__ = ["table_of_onnx"]


def table_of_onnx() -> dict[str, tuple[Version, ...]]:
    """The table, from the onnx package that is installed."""
    names = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
    return {name: versions_of_onnx(name) for name in names}


def main() -> None:
    """Write the file, with one line for each operator."""
    lines = [msgspec.json.encode({op: each}).strip(b"{}") for op, each in table_of_onnx().items()]
    TABLE.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


if __name__ == "__main__":
    main()
