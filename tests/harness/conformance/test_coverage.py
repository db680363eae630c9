"""What the cases of ONNX operators cover: all of the main domain, and what is absent is named."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from onnx_parity.harness.cli import app
from onnx_parity.harness.conformance.coverage import DomainCoverage, Share, measure
from onnx_parity.harness.conformance.planning import declared_cases
from onnx_parity.op_cases.onnx.elementwise import elu


@pytest.fixture(scope="module")
def coverage() -> dict[str, DomainCoverage]:
    return {each.domain: each for each in measure(declared_cases())}


@pytest.mark.slow
def test_nothing_is_absent_that_can_be_there(coverage: dict[str, DomainCoverage]) -> None:
    main, learning = coverage["ai.onnx"].shares, coverage["ai.onnx.ml"].shares
    assert (main["operators"].known, main["versions"].known, main["types"].known) == (203, 568, 8480)
    assert (learning["operators"].known, learning["versions"].known, learning["types"].known) == (19, 23, 116)
    assert main["broadcasting"].known == 28
    assert [each for shares in (main, learning) for kind in shares.values() for each in kind.absent] == []


@pytest.mark.slow
def test_what_no_case_can_have_has_a_reason(coverage: dict[str, DomainCoverage]) -> None:
    shares = coverage["ai.onnx"].shares
    assert {kind: len(share.exempt) for kind, share in shares.items() if share.exempt} == {
        "optional outputs": 2, "size 0": 8, "size 1": 6,
    }  # fmt: skip
    assert shares["size 1"].exempt["Range"] == "its inputs are scalars"


def test_what_is_absent_is_named() -> None:
    main, _ = measure(elu.list_cases())
    assert main.shares["operators"] == Share(203, main.shares["operators"].absent, {})
    assert main.shares["operators"].covered == 1
    assert {"Add 14", "Elu 6"} & set(main.shares["versions"].absent) == {"Add 14"}
    assert "Add 14 T tensor(float)" in main.shares["types"].absent
    assert not any(each.startswith("Elu") for each in main.shares["types"].absent)


@pytest.mark.slow
def test_the_command_prints_shares(coverage: dict[str, DomainCoverage]) -> None:
    ran = CliRunner().invoke(app, ["coverage"])
    assert ran.exit_code == 0
    assert ran.output.splitlines()[:3] == [
        "ai.onnx",
        "  operators                    203 of    203  100.0 %",
        "  versions                     568 of    568  100.0 %",
    ]
    found = json.loads(CliRunner().invoke(app, ["coverage", "--json"]).output)
    assert found[1]["shares"]["operators"] == {"known": 19, "absent": [], "exempt": {}}
