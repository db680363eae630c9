"""The ledger on the page of findings: what its reader says of each, and which of them cannot be read."""

from __future__ import annotations

from pathlib import Path

from onnx_parity.harness.search.ledger import Finding, write
from onnx_parity.reports.pages.ledger import read_ledger


def test_findings_are_texts_and_one_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    finding = Finding(
        title="Elu of -0.0", culprit="onnxruntime", fault="wrong result", held_by=("a.py", "b.py"), read=True,
        versions={"torch": "2.13"},
    )  # fmt: skip
    write(tmp_path / "elu", finding, "print()")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "finding.toml").write_text("title = 1")
    broken, elu = read_ledger(tmp_path)
    assert elu == {
        "name": "elu", "title": "Elu of -0.0", "culprit": "onnxruntime", "fault": "wrong result",
        "held_by": "a.py, b.py", "read": "yes", "exit": "1", "versions": "torch 2.13", "text": "print()",
    }  # fmt: skip
    assert (broken["name"], broken["title"]) == ("broken", "cannot be read")
    assert "broken/finding.toml cannot be read" in broken["text"]
    assert read_ledger(tmp_path / "nothing") == []
