"""Seeds that depend only on the thing that is created: the same inputs in every shard and at every opset."""

from __future__ import annotations

import hashlib


def stable_seed(run_seed: int, *parts: str) -> int:
    """A 63-bit seed from the run's seed and the names of the thing, e.g. a case's label and an input's name.

    Python's own `hash` of a string differs from process to process; this one never does.
    """
    text = "\x1f".join((str(run_seed), *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
