"""Runs the tests that concern what was changed since `main`, in about two minutes: `python -m tests.of_change`.

Tests lie in the folder that mirrors the code's; the cases of a family of operators in `op_cases/` have its name. What
this leaves out are the tests of all else that may depend on the change, which `python3 start.py tests` runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["commands_for"]

_ROOT = Path(__file__).parents[1]
#: The tests of the structure of the project, which a new file or a longer one may break, and a rule that is new or lies
#: in another file. They take 15 seconds.
_ALWAYS = (
    "tests/packaging/test_rooms.py",
    "tests/packaging/test_documents.py",
    "tests/packaging/test_changelog.py",
    "tests/packaging/test_surface.py",
    "tests/exporter/registry/test_index.py",
)
_FAMILIES = "exporter/operators"
_REWRITES = "exporter/rewrites"
#: What shows that a rewrite computes the same: its own test states what its author takes it to do.
_REWRITTEN = ("tests/exporter/rewrites", "op_cases/fused.py")
_DECLARED = ("op_cases", "model_zoo")


def commands_for(files: Iterable[str], root: Path = _ROOT) -> list[list[str]]:
    """The words after `python -m` of what is to be run for changes of these files."""
    tests, declared = dict.fromkeys(_ALWAYS), dict[str, str]()
    for file in files:
        path = Path(file)
        if path.parts[0] in _DECLARED and path.suffix == ".py":
            # The smoke tier leaves out cases of operators, which may be those that were changed.
            declared[file] = "default" if path.parts[0] == "op_cases" else "smoke"
        elif path.parts[0] == "tests":
            tests |= {file: None} if path.name.startswith("test_") else {}
        elif file.startswith(f"{_FAMILIES}/") and (root / "op_cases" / f"{path.parts[2]}.py").exists():
            declared.setdefault(f"op_cases/{path.parts[2]}.py", "smoke")
        elif file.startswith(f"{_REWRITES}/"):
            tests[_REWRITTEN[0]] = None
            declared.setdefault(_REWRITTEN[1], "default")
        else:
            tests |= dict.fromkeys(_mirrored(path, root))
    found = [["pytest", "-q", *(each for each in tests if (root / each).exists())]]
    for tier in ("default", "smoke"):
        if places := [place for place, of in declared.items() if of == tier]:
            found.append(["onnx_parity", "run", *places, "--tier", tier, "--no-report"])
    return found


def _mirrored(path: Path, root: Path) -> list[str]:
    """The tests with a file's name, or else all those of the folder that mirrors its own."""
    folder = root / "tests" / path.parent
    found = folder / f"test_{path.stem}.py"
    if not found.exists():
        # The tests of all folders together are not those of a file.
        found = folder if path.parent.parent != Path() and folder.exists() else root
    return [] if found == root else [found.relative_to(root).as_posix()]


def main(base: Annotated[str, typer.Argument(help="The commit or branch that was changed.")] = "main") -> None:
    """Run the tests that concern what was changed since a commit, committed or not."""
    # What others changed there meanwhile is no change of one's own.
    asked = ["git", "diff", "--name-only", "--diff-filter=d", "--merge-base", base]
    new = ["git", "ls-files", "--others", "--exclude-standard"]
    files: list[str] = []
    for command in (asked, new):
        ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise typer.BadParameter(ran.stderr.partition("\n")[0])
        files += ran.stdout.splitlines()
    if not files:
        raise typer.BadParameter(f"nothing was changed since {base}. If it has your commits, name the one before them")
    failed: list[str] = []
    for words in (commands := commands_for(files)):
        print(f"$ python -m {' '.join(words)}", flush=True)
        if subprocess.run([sys.executable, "-m", *words], cwd=_ROOT, check=False).returncode:
            failed.append(f"python -m {' '.join(words)}")
    if failed:
        print(f"\n{len(failed)} of {len(commands)} commands failed:\n" + "\n".join(f"  {each}" for each in failed))
    else:
        print(f"\nAll of {len(commands)} commands passed.")
    raise typer.Exit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
