"""The lines of each folder of the code, beside the most that it may have: `python -m tests.rooms`.

A folder that outgrows its budget is looked at: is something in it written twice, or would one mechanism cover several
cases? Only then is the number here raised, or the folder divided. `tests/packaging/test_rooms.py` holds them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

__all__ = ["BUDGETS", "lines_by_room", "outgrown"]

_ROOT = Path(__file__).parents[1]
#: The most lines of each folder, and of the files directly in a top-level folder.
BUDGETS = {
    "exporter": 3620,
    "exporter/dispatch": 930,
    "exporter/expressions": 1780,
    "exporter/fallback": 400,
    "exporter/files": 1620,
    "exporter/graph": 1255,
    "exporter/kinds": 1560,
    "exporter/lowering": 5515,
    "exporter/operators": 18360,
    "exporter/patches": 2095,
    "exporter/program_state": 1345,
    "exporter/recording": 8925,
    "exporter/recurrences": 850,
    "exporter/registry": 740,
    "exporter/request": 1775,
    "exporter/rewrites": 5530,
    "exporter/runtime": 870,
    "exporter/script": 3000,
    "exporter/sizes": 2480,
    "exporter/sources": 510,
    "exporter/torch_inside": 4300,
    "exporter/torch_onnx": 200,
    "exporter/tracing": 3728,
    "exporter/verification": 3380,
    "harness": 3562,
    "harness/any_size": 440,
    "harness/bisecting": 500,
    "harness/cases": 2158,
    "harness/cluster": 2300,
    "harness/commands": 4830,
    "harness/conformance": 1615,
    "harness/drawing": 750,
    "harness/expecting": 1360,
    "harness/gate": 1050,
    "harness/halves": 800,
    "harness/judging": 1275,
    "harness/localisation": 1260,
    "harness/matrix": 845,
    "harness/onnx_cases": 1010,
    "harness/operators": 465,
    "harness/pytest_plugin": 2645,
    "harness/results": 2280,
    "harness/reuse": 760,
    "harness/running": 1510,
    "harness/search": 4550,
    "harness/sensitivity": 900,
    "harness/subjects": 1570,
    "harness/transformations": 600,
    "reports": 3750,
}


def lines_by_room(root: Path = _ROOT) -> Counter[str]:
    """The lines of Python in each folder that has a budget."""
    found: Counter[str] = Counter()
    for top in dict.fromkeys(room.partition("/")[0] for room in BUDGETS):
        for path in (root / top).rglob("*.py"):
            parts = path.relative_to(root).parts
            room = "/".join(parts[:2]) if top != "reports" and len(parts) > 2 else top
            found[room] += len(path.read_text("utf-8").splitlines())
    return found


def outgrown(lines: Counter[str]) -> dict[str, int]:
    """The folders that have more lines than their budget, or none, with the lines too many."""
    return {room: number - BUDGETS.get(room, 0) for room, number in lines.items() if number > BUDGETS.get(room, 0)}


def main() -> None:
    """Print the lines of each folder of the code, and how many it may have."""
    lines = lines_by_room()
    for room, budget in BUDGETS.items():
        print(f"{room:<28}{lines[room]:>7} of {budget:>6}{'  outgrown' if lines[room] > budget else ''}")
    for top in dict.fromkeys(room.partition("/")[0] for room in BUDGETS):
        total = sum(number for room, number in lines.items() if room.partition("/")[0] == top)
        print(f"{top + ' in all':<28}{total:>7}")
    raise typer.Exit(1 if outgrown(lines) else 0)


if __name__ == "__main__":
    typer.run(main)
