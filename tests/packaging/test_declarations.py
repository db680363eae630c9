"""The declarations of the project: names are unique, because cells are identified by them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import start
from onnx_parity.harness.cases.declarations import declared_under

ROOT = Path(start.__file__).parent


def test_no_two_declarations_have_one_name() -> None:
    places: defaultdict[str, set[str]] = defaultdict(set)
    for folder in ("op_cases", "model_zoo"):
        for name, declaration in declared_under(ROOT / folder):
            places[name].add(declaration.place)
    assert len(places) > 500
    assert {name: sorted(each) for name, each in places.items() if len(each) > 1} == {}
