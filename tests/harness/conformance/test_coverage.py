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


def test_every_operator_and_version_has_cases_and_nearly_every_type(coverage: dict[str, DomainCoverage]) -> None:
    shares = coverage["ai.onnx"].shares
    assert (shares["operators"].known, shares["operators"].absent) == (203, [])
    assert (shares["versions"].known, shares["versions"].absent) == (568, [])
    assert shares["types"].absent == ["BitCast 26 T1 tensor(float4e2m1)", "BitCast 26 T2 tensor(float4e2m1)"]
    assert shares["attributes"].absent == shares["optional inputs"].absent == []
    assert shares["optional inputs left out"].absent == shares["optional outputs left out"].absent == []
    assert shares["broadcasting"].absent == []
    for size, least in {"size 0": 0.75, "size 1": 0.9}.items():
        assert shares[size].covered >= least * shares[size].known, shares[size].absent
    # What the mask is where nothing is dropped was not said before version 12.
    assert shares["optional outputs"].absent == ["Dropout 7 mask", "Dropout 10 mask"]


def test_the_domain_of_machine_learning_has_cases_of_everything(coverage: dict[str, DomainCoverage]) -> None:
    shares = coverage["ai.onnx.ml"].shares
    assert (shares["operators"].known, shares["versions"].known, shares["types"].known) == (19, 23, 116)
    assert [each for name, kind in shares.items() if not name.startswith("size") for each in kind.absent] == []


def test_what_is_absent_is_named() -> None:
    main, _ = measure(elu.list_cases())
    assert main.shares["operators"] == Share(203, main.shares["operators"].absent)
    assert main.shares["operators"].covered == 1
    assert {"Add 14", "Elu 6"} & set(main.shares["versions"].absent) == {"Add 14"}
    assert "Add 14 T tensor(float)" in main.shares["types"].absent
    assert not any(each.startswith("Elu") for each in main.shares["types"].absent)


def test_the_command_prints_shares(coverage: dict[str, DomainCoverage]) -> None:
    ran = CliRunner().invoke(app, ["coverage"])
    assert ran.exit_code == 0
    assert ran.output.splitlines()[:3] == [
        "ai.onnx",
        "  operators                    203 of    203  100.0 %",
        "  versions                     568 of    568  100.0 %",
    ]
    found = json.loads(CliRunner().invoke(app, ["coverage", "--json"]).output)
    assert found[1]["shares"]["operators"] == {"known": 19, "absent": []}
