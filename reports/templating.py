"""How templates become pages: what all of them may use, and what HTML forbids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from onnx_parity.harness.escaping import markup_text
from onnx_parity.harness.results.completeness import RESUME
from onnx_parity.reports import wording

__all__ = ["new_environment"]

_TEMPLATES = Path(__file__).parent / "templates"


def new_environment(names: Mapping[str, object]) -> Environment:
    """The templates, with these names and with filters for numbers and times."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_fit_for_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(names)
    environment.filters.update(
        {
            "duration": wording.duration,
            "instant": wording.instant,
            "plural": wording.plural,
            "thousands": wording.thousands,
            # A notice, and the command that it ends with.
            "resumed": lambda notice: notice.partition(RESUME)[::2],
        }
    )
    return environment


def _fit_for_html(value: Any) -> Any:
    """Replace characters that HTML forbids. Jinja escapes only those that are HTML's syntax."""
    return markup_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
