"""Writes a conformance pack: a folder for each test, the manifest, its schema, and lists of ids.

docs/conformance.md describes the format. A pack whose writing was stopped is gone on with, if nothing has changed.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
import pyarrow

from onnx_parity import __version__
from onnx_parity.harness.conformance.contents import write_test
from onnx_parity.harness.conformance.manifest import (
    FORMAT,
    LISTS,
    MANIFEST,
    VERSION,
    Manifest,
    PackError,
    Test,
    changed_files,
    schema_of,
    write_json,
)
from onnx_parity.harness.conformance.planning import Planned
from onnx_parity.harness.conformance.submission import Submission, Waiver
from onnx_parity.harness.conformance.values import UnfitError
from onnx_parity.harness.results.content import contents, room_folder
from onnx_parity.harness.results.environment import package_versions

__all__ = ["Written", "pack_archive", "write_pack"]

_TESTS, _MUST_PASS = "tests", "mustpass"
#: The tests of a pack that is not finished, one a line, after a line that names what they were made with.
_UNFINISHED = "unfinished.jsonl"
#: How many bytes of an archive are compressed at once.
_CHUNK = 64 << 20


class _LeftOut(msgspec.Struct, frozen=True):
    """A planned test that can be none, so that a call that goes on does not find it out again."""

    left_out: str
    id: str


class Written(NamedTuple):
    manifest: Manifest
    #: How many planned tests are not there, by reason.
    left_out: Counter[str]
    #: How many an earlier call had written.
    kept: int
    #: The size of the archive.
    archived: int | None = None


def write_pack(folder: Path, planned: Iterable[Planned], archive: Path | None = None) -> Written:
    """Write a pack of these tests, and an archive of it. One that is there is replaced, or gone on with, and anything
    else is refused."""
    made_with = _fingerprint()
    earlier = _earlier_tests(folder, made_with)
    folder.mkdir(parents=True, exist_ok=True)
    left_out: Counter[str] = Counter()
    tests: list[Test] = []
    kept = 0
    # The first thing in the folder, so that a pack whose writing was interrupted is known as one.
    with (folder / _UNFINISHED).open("wb") as unfinished:
        head = {"format": FORMAT, "made_with": made_with}
        unfinished.write(b"".join(msgspec.json.encode(each) + b"\n" for each in (head, *earlier.values())))
        for each in planned:
            made = earlier.get(each.id)
            if made is None or (isinstance(made, Test) and any(changed_files(folder, made))):
                made = _write(each, folder)
                unfinished.write(msgspec.json.encode(made) + b"\n")
                unfinished.flush()
            elif isinstance(made, Test):
                kept += 1
            if isinstance(made, Test):
                tests.append(made)
            else:
                left_out[made.left_out] += 1
    _remove_others(folder / _TESTS, {PurePosixPath(test.folder).name for test in tests})
    manifest = Manifest(FORMAT, VERSION, f"onnx-parity {__version__}", tests)
    _write_lists(folder / _MUST_PASS, tests)
    write_json(folder / "manifest.schema.json", schema_of(Manifest, FORMAT))
    write_json(folder / "submission.schema.json", schema_of(Submission, "onnx-parity-submission"))
    write_json(folder / "waivers.schema.json", schema_of(list[Waiver], "onnx-parity-waivers"))
    write_json(folder / MANIFEST, manifest)
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    (folder / "manifest.sha256").write_text(f"{digest}  {MANIFEST}\n", encoding="utf-8")
    archived = None if archive is None else pack_archive(folder, archive)
    (folder / _UNFINISHED).unlink()
    return Written(manifest, left_out, kept, archived)


def _write(planned: Planned, folder: Path) -> Test | _LeftOut:
    try:
        return write_test(planned.make(), folder, _TESTS)
    except UnfitError as error:
        return _LeftOut(str(error), planned.id)
    except Exception as error:
        error.add_note(f"This is the test {planned.id}.")
        raise


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove what an earlier call has written, and this one did not plan."""
    for each in folder.iterdir() if folder.exists() else ():
        if each.name not in names:
            shutil.rmtree(each)


def _earlier_tests(folder: Path, made_with: str) -> dict[str, Test | _LeftOut]:
    """The tests of an unfinished pack that were made with the same code. What else a pack has is removed."""
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    head, *lines = _lines_of(folder / _UNFINISHED) or _lines_of(folder / MANIFEST, whole=True) or [b""]
    try:
        found = msgspec.json.decode(head)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise PackError(f"{folder} is not empty and holds no pack. Name a new folder.")
    (folder / MANIFEST).unlink(missing_ok=True)
    if found.get("made_with") == made_with:
        return {made.id: made for made in _decode_tests(lines)}
    shutil.rmtree(folder / _TESTS, ignore_errors=True)
    return {}


def _lines_of(path: Path, *, whole: bool = False) -> list[bytes]:
    try:
        content = path.read_bytes()
    except OSError:
        return []
    return [content] if whole else content.splitlines()


def _decode_tests(lines: Iterable[bytes]) -> Iterator[Test | _LeftOut]:
    for line in lines:
        try:
            if line.startswith(b'{"left_out":'):
                yield msgspec.json.decode(line, type=_LeftOut)
            else:
                yield msgspec.json.decode(line, type=Test)
        except msgspec.DecodeError:
            return  # The last line may have been cut off.


def _fingerprint() -> str:
    """A hash of all that the files of a pack come from: the code, the declarations, and the installed packages."""
    declared = room_folder("op_cases").rglob("*.py")
    hashes = {**contents(), **{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(declared)}}
    return hashlib.sha256(msgspec.json.encode([hashes, package_versions()], order="sorted")).hexdigest()


def _write_lists(folder: Path, tests: Iterable[Test]) -> None:
    """`mustpass/core.txt` has the ids of a list, and `mustpass/opset-13/core.txt` those of its models of one opset."""
    shutil.rmtree(folder, ignore_errors=True)
    lists: dict[Path, list[str]] = {folder / f"{name}.txt": [] for name in LISTS}
    for test in tests:
        for name in test.lists:
            lists[folder / f"{name}.txt"].append(test.id)
            lists.setdefault(folder / f"opset-{test.opset}" / f"{name}.txt", []).append(test.id)
    for path, ids in lists.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{each}\n" for each in sorted(ids)), encoding="utf-8")


def pack_archive(folder: Path, archive: Path) -> int:
    """Write a `.tar.zst` of a folder, with the same bytes for the same files. Return its size."""
    codec = pyarrow.Codec("zstd", compression_level=12)
    with (
        archive.open("wb") as target,
        _Compressed(target, codec) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar,
    ):
        unfinished = folder / _UNFINISHED
        for path in sorted(each for each in folder.rglob("*") if each.is_file() and each != unfinished):
            entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return archive.stat().st_size


class _Compressed(io.RawIOBase):
    """A file that is written through a codec in chunks, each a frame of its own, which every reader of zstd takes."""

    def __init__(self, target: io.BufferedWriter, codec: pyarrow.Codec) -> None:
        self._target, self._codec, self._waiting = target, codec, bytearray()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._waiting += data
        if len(self._waiting) >= _CHUNK:
            self._compress()
        return len(data)

    def close(self) -> None:
        if self._waiting:
            self._compress()
        super().close()

    def _compress(self) -> None:
        self._target.write(self._codec.compress(bytes(self._waiting), asbytes=True))
        self._waiting.clear()
