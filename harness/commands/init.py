"""`parity init`: the first files of a project that tests its own operators and models."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import onnx_parity
from onnx_parity.harness.commands import defaults
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

_DECLARATIONS = '''"""What is tested: every public name that is an op(...) or a model(...), each with all of its cases.

`parity run` exports every case at several opsets, runs it in onnxruntime, and compares it with PyTorch.
"""

import torch
import torch.nn.functional as F
from onnx_parity.harness.case import floats, model, op

# An operator, or any function of tensors. Each value of a list is a case of its own.
softplus = op(F.softplus, floats(2, 3), beta=[1.0, 0.5])

# A function of your own, whose first axis may have any size.
normalized = op(lambda x: x / x.norm(dim=1, keepdim=True), floats(4, 3), dynamic={"x": {0: "batch"}})


class Block(torch.nn.Module):
    """Replace this by a module of yours: `from my_package import Block`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(self.linear(x)))


# A model: what constructs it, its inputs, and its keyword arguments. Its weights are drawn from the seed of the run.
block = model(Block, floats(2, 8), width=[4, 16], dynamic={"x": {0: "batch"}}, tier="smoke")
'''

_FILE = "file://"
_SETTINGS = """\
[tool.parity]
declarations = ["{folder}"]
"""

_WORKFLOW = """\
# Runs the cells, and compares them with those of the main branch: a pull request may not make anything worse.
name: parity

on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  parity:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.13"
          cache: pip
      # Add here what your declarations import.
      - run: pip install {requirement}
      - name: Restore the baseline, the last run of the main branch
        uses: actions/cache/restore@v4
        with:
          path: baseline
          key: parity-${{ github.sha }}
          restore-keys: parity-
      - name: Run the cells
        id: run
        run: parity run
        # Where there is a baseline, the gate decides.
        continue-on-error: ${{ hashFiles('baseline/run.json') != '' }}
      - name: Compare with the baseline
        if: ${{ !cancelled() && hashFiles('baseline/run.json') != '' }}
        run: parity gate --baseline baseline --markdown "$GITHUB_STEP_SUMMARY"
      - uses: actions/upload-artifact@v4
        if: ${{ !cancelled() }}
        with:
          name: parity
          path: runs/
      - name: Make this run the baseline
        if: ${{ github.ref == 'refs/heads/main' }}
        run: rm -rf baseline && cp -RL runs/last baseline
      - uses: actions/cache/save@v4
        if: ${{ github.ref == 'refs/heads/main' }}
        with:
          path: baseline
          key: parity-${{ github.sha }}
"""

_NEXT = """\
What to do next:
  parity run                       runs the cells and writes a report
  parity list                      lists the cases
  parity repro CELL                writes a bundle that reproduces one cell
  echo runs/ >> .gitignore         keeps runs out of your repository
Then declare operators and models of your own in {folder}/."""

#: What else is to be done where this installation is of files that no other machine has.
_LOCAL = """
The workflow cannot install what is installed here, {origin}, unless your package index has it. Otherwise put a wheel
into your repository, where the workflow looks first:
  pip wheel --no-deps --wheel-dir {wheels} {origin}"""
_WHEELS = "wheels"


def init(
    folder: Annotated[Path, typer.Argument(help="The folder of the declarations, to be created here.")] = Path(
        "parity_cases"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the written files as JSON.")] = False,
) -> None:
    """Begin to test operators and models of your own, in this folder: write the first files, and say what to run next.

    They are a first file of declarations, the settings in `pyproject.toml`, and a workflow for GitHub Actions that runs
    the cells and compares them with those of the main branch. Files that exist are never changed, except that the
    settings are added at the end of a `pyproject.toml` that has none.

    Exit codes: 0 if the files were written; 2 if this folder has settings already.

    Examples:

        parity init

        parity init tests/onnx_cases
    """
    project = defaults.project()
    if project.is_configured and project.root == Path.cwd():
        refuse(f"{project.root / 'pyproject.toml'} has a [tool.parity] already. `parity list` lists what it declares.")
    if folder.is_absolute() or ".." in folder.parts or not all(part.isidentifier() for part in folder.parts):
        refuse(f"{folder} cannot be the folder of declarations: name one below this folder, as Python names packages.")
    origin = _origin()
    requirement = _requirement(origin)
    written = [
        path
        for path, text in (
            (folder / "first.py", _DECLARATIONS),
            (Path(".github") / "workflows" / "parity.yml", _WORKFLOW.replace("{requirement}", requirement)),
        )
        if _write_new(path, text)
    ]
    _add_settings(Path("pyproject.toml"), _SETTINGS.format(folder=folder.as_posix()))
    written.append(Path("pyproject.toml"))
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        print_text(f"written: {path}")
    print_text(_NEXT.format(folder=folder))
    if origin.startswith(_FILE):
        from urllib.request import url2pathname

        print_text(_LOCAL.format(origin=shlex.quote(url2pathname(origin.removeprefix(_FILE))), wheels=_WHEELS))


def _origin() -> str:
    """Where this package was installed from, if that was no package index: `file:///...`, `git+https://...@commit`."""
    try:
        text = metadata.distribution("onnx-parity").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        # A clone that is not installed.
        return Path(onnx_parity.__file__).parents[1].as_uri()
    recorded = json.loads(text or "{}")
    url, version = str(recorded.get("url", "")), recorded.get("vcs_info")
    return f"{version['vcs']}+{url}@{version['commit_id']}" if version is not None else url


def _requirement(origin: str) -> str:
    """What the workflow gives to `pip install`, so that it gets the same package."""
    if origin.startswith(_FILE):
        return f"--find-links {_WHEELS} 'onnx-parity[harness]'"
    return f"'onnx-parity[harness] @ {origin}'" if origin else "'onnx-parity[harness]'"


def _write_new(path: Path, text: str) -> bool:
    """Write a file where there is none, and return whether that is so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print_text(f"kept: {path}, which exists", error=True)
        return False
    return True


def _add_settings(file: Path, settings: str) -> None:
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    apart = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    with file.open("a", encoding="utf-8") as end:
        end.write(apart + settings)
