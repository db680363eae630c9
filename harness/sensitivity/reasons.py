"""Why no case can tell some alterations: a file beside the declarations.

"isnan is computed in fewer bits" = "a number is not NaN in fewer bits, and NaN is"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from onnx_parity.harness.declaration_error import DeclarationError

__all__ = ["FILE", "read_reasons"]

FILE = "untold.toml"


def read_reasons(places: Iterable[Path]) -> dict[str, str]:
    """The reasons beside these files or in these folders of declarations, by the alterations as they are printed."""
    found: dict[str, str] = {}
    for folder in {place if place.is_dir() else place.parent for place in places}:
        path = folder / FILE
        try:
            found |= msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, str])
        except FileNotFoundError:
            continue
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise DeclarationError(f"{path}: {error}") from error
    return found
