"""Changes bytes of small models and weights at random, and reads them: `python -m tests.harness.fuzz_files 10000`.

Whatever the bytes are, reading ends soon, with a result or with the error that the reader documents.
"""

from __future__ import annotations

import faulthandler
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import torch
import typer
from torch import nn

import onnx_parity
from onnx_parity.exporter.errors import WriteError
from onnx_parity.exporter.files.safetensors_files import SafetensorsFile
from onnx_parity.harness.commands.model_source import SourceError, read_weights
from onnx_parity.harness.commands.show import NotAModelError, read_model

__all__ = ["fuzz"]

#: One file is read in milliseconds.
_SECONDS = 20


def _show(path: Path) -> None:
    with suppress(NotAModelError):
        summary, _ = read_model(path, with_graph=True)
        list(summary.lines())
        msgspec.json.encode(summary)


def _weights(path: Path) -> None:
    with suppress(SourceError):
        read_weights(path)


def _safetensors(path: Path) -> None:
    with suppress(WriteError):
        SafetensorsFile.read(path)


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: x - 1, (x,))
        return result


def _seeds(folder: Path) -> Iterator[tuple[str, bytes, Callable[[Path], None]]]:
    """Name, content and reader of each real file."""
    import safetensors.torch

    torch.manual_seed(0)
    x = torch.ones(2, 4)
    linear = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    yield "linear.onnx", onnx_parity.export(linear, (x,), dynamic_axes={"input": [0]}).serialize(), _show
    yield "branches.onnx", onnx_parity.export(_Branches(), (x,), strip_doc_string=False).serialize(), _show
    functions = onnx_parity.export(linear, (x,), export_modules_as_functions=True)
    yield "functions.onnx", functions.serialize(), _show
    onnx_parity.export(nn.Linear(32, 32), (torch.ones(1, 32),), folder / "external.onnx", external_data=True)
    yield "external.onnx", (folder / "external.onnx").read_bytes(), _show
    torch.save(linear.state_dict(), folder / "state.pt")
    yield "state.pt", (folder / "state.pt").read_bytes(), _weights
    stored = safetensors.torch.save(linear.state_dict())
    yield "state.safetensors", stored, _weights
    yield "referred.safetensors", stored, _safetensors


def _changed(content: bytes, draw: random.Random) -> bytes:
    """The content with a few bytes changed, taken out, put in, doubled or cut off."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(5):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del data[at : at + draw.choice((1, 1, 4, 40))]
            case 2:
                data[at:at] = draw.choice((b"\xff" * 9, b"\x80" * 10, b"\0", b"\xc3\x28", draw.randbytes(8)))
            case 3:
                data[at:at] = data[at : at + draw.randrange(1, 64)]
            case 4 if draw.random() < 0.2:
                del data[at:]
            case _:
                data[at : at + 1] = bytes([byte ^ (1 << draw.randrange(8)) for byte in data[at : at + 1]])
    return bytes(data)


def fuzz(tries: int, seed: int = 0) -> list[str]:
    """Read so many changed files. Returns a line for each error that no reader documents."""
    draw = random.Random(seed)
    undocumented = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = list(_seeds(folder))
        for number in range(tries):
            file, content, read = seeds[number % len(seeds)]
            path = folder / file
            path.write_bytes(_changed(content, draw))
            faulthandler.dump_traceback_later(_SECONDS, exit=True)
            try:
                read(path)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
                undocumented.append(f"try {number} of seed {seed}: {file}: {type(error).__name__}: {error}")
            finally:
                faulthandler.cancel_dump_traceback_later()
    return undocumented


def main(tries: int, seed: int = 0) -> None:
    """Read so many changed files. Exit codes: 0 if every error is one that its reader documents, else 1."""
    found = fuzz(tries, seed)
    print(*found, f"{tries - len(found):,} of {tries:,} files were read or refused", sep="\n")
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
