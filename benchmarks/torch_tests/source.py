"""Where PyTorch's tests are: in a checkout of its release 1.13.1, or fetched from there. They are never part of this
project.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

#: The last release whose tests cover the whole language of scripts; later ones were cut down step by step.
RELEASE = "v1.13.1"
TESTS = "test_pytorch_onnx_onnxruntime.py"
#: The files of `test/onnx` that the tests are made of.
FILES = (
    TESTS,
    "pytorch_test_common.py",
    "model_defs/__init__.py",
    *(
        f"model_defs/{name}.py"
        for name in (
            "dcgan", "emb_seq", "lstm_flattening_result", "mnist", "op_test", "rnn_model_with_packed_sequence",
            "squeezenet", "srresnet", "super_resolution", "word_language_model",
        )
    ),
)  # fmt: skip
_ADDRESS = f"https://raw.githubusercontent.com/pytorch/pytorch/{RELEASE}/test/onnx"
_BY_HAND = (
    f"git clone --depth 1 --branch {RELEASE} https://github.com/pytorch/pytorch; then name its folder test/onnx, or "
    f"{TESTS} in it"
)


class MissingTestsError(Exception):
    """PyTorch's tests are not there. The message says what is missing, and how to get it."""


def folder_of(path: Path) -> Path:
    """The folder of the tests, from its path or that of the file of tests."""
    folder = path.parent if path.name == TESTS else path
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise MissingTestsError(f"{folder} has no {missing[0]}. To get it: {_BY_HAND}")
    return folder.resolve()


def fetched() -> Path:
    """The folder of the tests, fetched from PyTorch's release unless that has been done before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "onnx_parity" / f"pytorch-{RELEASE}" / "test" / "onnx"
    for name in FILES:
        path = folder / name
        if path.is_file():
            continue
        try:
            with urllib.request.urlopen(f"{_ADDRESS}/{name}", timeout=30) as answer:
                content = answer.read()
        except (urllib.error.URLError, TimeoutError) as error:
            raise MissingTestsError(
                f"PyTorch's tests are needed, and {_ADDRESS}/{name} cannot be fetched ({error}). Get them by hand: "
                f"{_BY_HAND}"
            ) from error
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole, so that a run that is stopped here leaves no half file.
        part = path.with_suffix(".part")
        part.write_bytes(content)
        part.rename(path)
    return folder
