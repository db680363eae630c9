"""Strings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import Array, call, definition, node


def _strings(values: Any, shape: tuple[int, ...]) -> Array:
    made = np.empty(len(values), object)
    made[:] = values
    return made.reshape(shape)


@definition
def joined(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    return _strings([str(a) + str(b) for a, b in zip(x.ravel(), y.ravel(), strict=True)], x.shape)


string_concat = node(
    "StringConcat",
    joined,
    call((2, 3), (2, 3)),
    call((2, 3), (3,)),
    call((), (2, 1)),
    call((0, 3), (3,)),
    call(["", "ß", "🙂"], ["", "é", "数"]),
)


@definition
def matched(x: Array, pattern: str) -> Array:
    return np.array([re.fullmatch(pattern, str(each)) is not None for each in x.ravel()], bool).reshape(x.shape)


regex_full_match = node(
    "RegexFullMatch",
    matched,
    call(["www.example.com", "example.com", "ab"], pattern=r"www\.[\w.-]+\.[a-z]+"),
    call((2, 3), pattern="a"),
    call((1,), pattern="a"),
    call(["a", "ab", "", "A"], pattern="a|ab"),
    call(["数", "x"], pattern="."),
    call((0,), pattern=".*"),
    call("aaa", pattern="a{2,3}"),
)


@definition
def split(x: Array, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Array, Array]:
    """Without a delimiter, or with an empty one, at any space. Rows are filled up with empty strings."""
    cuts = [str(each).split(delimiter or None, -1 if maxsplit is None else maxsplit) for each in x.ravel()]
    most = max(map(len, cuts), default=0)
    parts = [part for cut in cuts for part in cut + [""] * (most - len(cut))]
    return _strings(parts, (*x.shape, most)), np.array(list(map(len, cuts)), np.int64).reshape(x.shape)


string_split = node(
    "StringSplit",
    split,
    call(["a b  c", " d", ""]),
    call(["a,b,,c", "d"], delimiter=","),
    call((0,)),
    call([["a.b.c", "d"], ["g", "e.f"]], delimiter=".", maxsplit=1),
    call(["a  b c", "d e"], maxsplit=1),
    call(["a--b-c"], delimiter="--"),
    call(["x y"], delimiter=""),
)


@definition
def normalized(
    x: Array, case_change_action: str, is_case_sensitive: int, stopwords: Any = None, locale: str = ""
) -> Array:
    """Without words that are left, there is one empty string."""
    del locale
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes[case_change_action]
    stops = list(stopwords or [])
    if not is_case_sensitive:
        stops = [each.lower() for each in stops]
    left = [change(each) for each in x.ravel().tolist() if (each if is_case_sensitive else each.lower()) not in stops]
    left = left or [""]
    return _strings(left, (1, len(left)) if x.ndim == 2 else (len(left),))


_DAYS = ["monday", "Tuesday", "WEDNESDAY", "monday"]
string_normalizer = node(
    "StringNormalizer",
    normalized,
    call(_DAYS),
    call(_DAYS, case_change_action="LOWER", is_case_sensitive=1, stopwords=["monday"]),
    call(_DAYS, case_change_action="UPPER", is_case_sensitive=1, stopwords=["monday"]),
    call(_DAYS, case_change_action="UPPER", stopwords=["MONDAY"]),
    call(["monday"], is_case_sensitive=1, stopwords=["monday"]),
    call([_DAYS], case_change_action="LOWER", is_case_sensitive=1, stopwords=["Tuesday"], locale="en_US"),
)


@definition
def counted(
    x: Array, *, mode: str, max_gram_length: int, min_gram_length: int, max_skip_count: int, ngram_counts: list[int],
    ngram_indexes: list[int], pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Array:  # fmt: skip
    """How often each n-gram of the pool is there, with as many elements left out between its own as are allowed."""
    pool = list(pool_strings if pool_int64s is None else pool_int64s)
    order = []
    for length, start in enumerate(ngram_counts, 1):
        end = ngram_counts[length] if length < len(ngram_counts) else len(pool)
        order += [(tuple(pool[place : place + length]), length) for place in range(start, end, length)]
    rows = np.atleast_2d(x)
    made = np.zeros((len(rows), max(ngram_indexes) + 1))
    for row, values in zip(made, rows.tolist(), strict=True):
        for number, (gram, length) in enumerate(order):
            if not min_gram_length <= length <= max_gram_length:
                continue
            skips = range(1) if length == 1 else range(max_skip_count + 1)
            row[ngram_indexes[number]] += sum(
                tuple(values[start : start + (length - 1) * (skip + 1) + 1 : skip + 1]) == gram
                for skip in skips
                for start in range(len(values) - (length - 1) * (skip + 1))
            )
    scale = np.ones(made.shape[1])
    if weights is not None:
        scale[ngram_indexes] = np.array(weights, np.float32)
    present = made > 0
    made = {"TF": made, "IDF": present * scale, "TFIDF": made * scale}[mode]
    return made.reshape(*x.shape[:-1], made.shape[1])


_POOL: dict[str, Any] = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "max_gram_length": 2,
         "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}  # fmt: skip
_NUMBERS = [1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8]
_WEIGHTS = [0.5, 1.0, 2.0, 0.25, 3.0, 1.5, 4.0]
tf_idf_vectorizer = node(
    "TfIdfVectorizer",
    counted,
    call(_NUMBERS, mode="TF", min_gram_length=1, max_skip_count=0, **_POOL),
    call([5], mode="TF", min_gram_length=1, max_skip_count=0, **_POOL),
    call((0,), mode="TF", min_gram_length=1, max_skip_count=0, **_POOL),
    call(_NUMBERS, mode="TF", min_gram_length=2, max_skip_count=0, **_POOL),
    call(_NUMBERS, mode="TF", min_gram_length=2, max_skip_count=5, **_POOL),
    call(_NUMBERS, mode="IDF", min_gram_length=1, max_skip_count=0, weights=_WEIGHTS, **_POOL),
    call(_NUMBERS, mode="TFIDF", min_gram_length=1, max_skip_count=1, weights=_WEIGHTS, **_POOL),
    call([_NUMBERS[:6], _NUMBERS[6:]], mode="TF", min_gram_length=1, max_skip_count=0, **_POOL),
    where=lambda types: "string" not in types["T"],
)
tf_idf_vectorizer_of_strings = node(
    "TfIdfVectorizer",
    counted,
    call(["a", "b", "a", "c"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2],
         ngram_indexes=[0, 1, 2], pool_strings=["a", "b", "a", "c"]),
    where=lambda types: "string" in types["T"],
)  # fmt: skip
