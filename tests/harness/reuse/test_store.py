"""The store: what is not whole is as good as none, many may write at once, and it does not grow without bound."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from onnx_parity.harness.reuse.store import SECRET, Store


def _key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_written_is_read_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert store.read(_key(1)) is None
    store.write(_key(1), b"one\ntwo")
    assert store.read(_key(1)) == b"one\ntwo"
    assert Store(tmp_path / "store").read(_key(1)) == b"one\ntwo"
    assert store.read(_key(2)) is None
    store.write(_key(1), b"")
    assert store.read(_key(1)) == b""


def test_a_torn_or_altered_file_is_a_miss(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(_key(1), b'{"status":"failed"}')
    (path,) = _files(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert store.read(_key(1)) is None
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert store.read(_key(1)) is None
    path.write_bytes(whole + b" ")
    assert store.read(_key(1)) is None
    path.write_bytes(whole)
    assert store.read(_key(1)) is not None


def test_an_outcome_cannot_be_moved_to_another_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    passing, failing = _key(1), _key(2)
    store.write(passing, b"passed")
    store.write(failing, b"failed")
    (tmp_path / passing[:2] / passing).replace(tmp_path / failing[:2] / failing)
    assert store.read(failing) is None


def test_without_the_secret_nothing_can_be_forged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = Store(tmp_path)
    monkeypatch.setenv(SECRET, "known to CI only")
    ours = Store(tmp_path)
    ours.write(_key(1), b"failed")
    assert ours.read(_key(1)) == b"failed"
    stranger.write(_key(1), b"passed")
    assert ours.read(_key(1)) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    store = Store(tmp_path / "store")
    store.write(_key(1), b"one")
    assert store.read(_key(1)) is None


def test_the_store_is_bounded_and_loses_what_was_not_used_for_longest(tmp_path: Path) -> None:
    # Four blocks for each part.
    store = Store(tmp_path, most_mib=4)
    part = [f"00{number:030x}" for number in range(80)]
    for number, key in enumerate(part):
        store.write(key, b"x" * 5000)
        os.utime(tmp_path / "00" / key, (time.time() - 1000 + number,) * 2)
    left = {path.name for path in _files(tmp_path)}
    # It was looked through at the 64th, and 16 have come since.
    assert left == {part[63], *part[64:]}


def test_the_unfinished_file_of_a_writer_that_died_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "00").mkdir()
    unfinished = tmp_path / "00" / ".dead"
    unfinished.write_bytes(b"half")
    os.utime(unfinished, (0, 0))
    for number in range(32):
        store.write(f"00{number:030x}", b"x")
    assert not unfinished.exists()


_KEYS = [_key(number) for number in range(20)]


def _write_for_ever(folder: Path, seed: int) -> None:
    store, rng = Store(folder, most_mib=30), random.Random(seed)
    while True:
        key = rng.choice(_KEYS)
        store.write(key, key.encode() * rng.randrange(1, 2000))


@pytest.mark.slow
def test_many_processes_write_at_once_and_some_are_killed(tmp_path: Path) -> None:
    writers = [get_context("fork").Process(target=_write_for_ever, args=(tmp_path, seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    store, found = Store(tmp_path), 0
    ends = time.monotonic() + 1
    try:
        while time.monotonic() < ends:
            for key in _KEYS:
                content = store.read(key)
                if content is not None:
                    found += 1
                    assert content == key.encode() * (len(content) // len(key))
                # Nothing but a whole file stands under a key: what is there can be read.
                elif (tmp_path / key[:2] / key).exists():
                    assert store.read(key) is not None
            if writers[0].is_alive():
                os.kill(writers[0].pid or 0, signal.SIGKILL)
                writers[0].join()
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
    assert found > 100
    assert all(store.read(key) for key in _KEYS)
