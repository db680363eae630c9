"""The packages of the extra `harness`: without them there are no cells, no reports and no `parity` command.

Whoever only exports does not have them. This file is imported by every pytest in an environment with the package, and
so imports nothing slow itself.
"""

from __future__ import annotations

from importlib.util import find_spec

#: The distributions that the extra installs, as in `pyproject.toml`, and the module that each of them is imported by.
PACKAGES = {
    "packaging": "packaging",
    "rich": "rich",
    "typer": "typer",
    "jinja2": "jinja2",
    "markdown-it-py": "markdown_it",
    "pyarrow": "pyarrow",
    "pytest": "pytest",
    "pytest-xdist": "xdist",
    "expecttest": "expecttest",
}
INSTALL = 'pip install "onnx-parity[harness]"'


def missing_packages() -> list[str]:
    """The distributions of the extra that are not installed."""
    return [name for name, module in PACKAGES.items() if find_spec(module) is None]


def how_to_install(what: str, missing: list[str]) -> str:
    """One line for the user of something that needs the extra."""
    are = "is" if len(missing) == 1 else "are"
    return f"{what} needs the harness, and {', '.join(missing)} {are} not installed: {INSTALL}"
