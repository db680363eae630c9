"""Makes submissions for tests: a small pack, and what a runner would write of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from onnx_parity.harness.conformance.judging import open_pack
from onnx_parity.harness.conformance.pack import write_pack
from onnx_parity.harness.conformance.planning import plan_cases

IDS = ("Elu-22-float-2x3", "Elu-22-float-1", "Elu-22-double-2x3", "Abs-13-int8-2x3")


def make_pack(folder: Path, patterns: Iterable[str] = IDS) -> Path:
    write_pack(folder, [each for each in plan_cases() if any(fnmatchcase(each.id, pattern) for pattern in patterns)])
    return folder


def submit(
    folder: Path,
    pack: Path,
    results: Mapping[str, str],
    waivers: Iterable[Mapping[str, object]] = (),
    runtime: str = "fast",
    version: str = "1.2",
) -> Path:
    """A submission with these results, by id; those that ran have the expected outputs as theirs."""
    opened = open_pack(pack)
    about = {
        "format": "onnx-parity-submission", "version": 1, "pack": opened.digest, "platform": "linux x86_64",
        "runtime": {"name": runtime, "version": version}, "runner": "by hand", "list": "core",
    }  # fmt: skip
    folder.mkdir()
    (folder / "submission.json").write_text(json.dumps(about))
    lines = [json.dumps({"id": id_, "result": result, "reason": f"so {result}"}) for id_, result in results.items()]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "waivers.json").write_text(json.dumps(list(waivers)))
    for test in opened.manifest.tests:
        if results.get(test.id) == "ran":
            place = folder / "outputs" / test.id / "test_data_set_0"
            place.mkdir(parents=True)
            shutil.copy(pack / test.folder / "test_data_set_0/output_0.pb", place)
    return folder
