"""Facts about PyTorch's OpInfo entries that need no import of them: entries without cases, and usable samples.

Importing `op_db` takes 2.6 s, and drawing all samples of an entry up to a second, so collection does neither. The
usable samples of a declaration file's entries are listed in a JSON file beside it, its survey, which
`parity opinfo-survey` creates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from onnx_parity.harness.axes import Dtype

#: The dtypes whose samples become cells: those that ONNX and onnxruntime both compute in.
DTYPES = (
    Dtype.FLOAT32, Dtype.FLOAT64, Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.INT64, Dtype.INT32, Dtype.INT8, Dtype.UINT8,
    Dtype.BOOL,
)  # fmt: skip
#: The dtypes that the survey of the whole database covers.
DTYPES_OF_DATABASE = (*DTYPES, Dtype.INT16, Dtype.COMPLEX64)
#: Outside the full tier an entry is run in the first of these that it has usable samples in.
FIRST_DTYPES = (Dtype.FLOAT32, Dtype.INT64, Dtype.BOOL, Dtype.COMPLEX64)
#: The number of samples of an entry that are run outside the full tier.
FEW = 4

_RANDOM = "its outputs are random numbers"
_UNDEFINED = "its outputs are uninitialized memory"
_CUDA = "it runs on CUDA only"

#: Entries that no declaration may name, with the reasons.
EXCLUDED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial",
            "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout.with_train",
            "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "normal", "normal.in_place",
            "normal.number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_",
            "resize_as_",
        ),
        _UNDEFINED,
    ),
    **dict.fromkeys(
        (
            "jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary",
            "jiterator_binary_return_by_ref", "jiterator_unary", "torch._scaled_mm", "torch._scaled_mm_v2",
            "torch.ops.aten._efficient_attention_forward", "torch.ops.aten._flash_attention_forward",
        ),
        _CUDA,
    ),
}  # fmt: skip

#: Operators whose vectors have any sign: their samples take the absolute values, or products, as torch's tests do.
NOT_UNIQUE = frozenset({"linalg.eig", "linalg.eigh", "linalg.svd", "svd"})

_WITH_TIES = (
    Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.INT64, Dtype.INT32, Dtype.INT16, Dtype.INT8, Dtype.UINT8, Dtype.BOOL,
)  # fmt: skip
#: Dtypes in which an entry's samples have ties, so that torch may return any of the equal elements.
UNDETERMINED: Mapping[str, tuple[Dtype, ...]] = {
    "argsort": _WITH_TIES,
    "kthvalue": _WITH_TIES,
    "mode": _WITH_TIES,
    "sort": (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.INT8, Dtype.UINT8, Dtype.BOOL),
    "topk": _WITH_TIES,
}

#: The usable samples of an entry: their positions among all samples of the entry, by dtype.
Usable: TypeAlias = Mapping[Dtype, tuple[int, ...]]


class Survey(msgspec.Struct, frozen=True):
    """The samples that torch runs with a tensor among their inputs and with the same result every time."""

    #: The version of torch that was surveyed; another one may draw other samples.
    torch: str
    #: Entry to dtype to the positions of its usable samples: `0-3,7`.
    entries: dict[str, dict[Dtype, str]]


def survey_path(declarations: Path) -> Path:
    """The path of the survey of a declaration file."""
    return declarations.with_suffix(".json")


class Database(Enum):
    """A database of torch's, as the file that declares all of its entries."""

    OPERATORS = Path("op_cases/operator_database.py")
    MODULES = Path("op_cases/module_database.py")


def write_survey(path: Path, torch_version: str, usable: Mapping[str, Usable]) -> None:
    """Write a survey with one line for each entry, so that the differences between versions of torch are readable."""
    entries = {
        name: {dtype: spell_positions(positions) for dtype, positions in usable[name].items()}
        for name in sorted(usable)
    }
    lines = ",\n".join(f"  {_json(name)}: {_json(dtypes)}" for name, dtypes in entries.items())
    aside = path.with_suffix(".part")
    aside.write_text(f'{{"torch": {_json(torch_version)}, "entries": {{\n{lines}\n}}}}\n', encoding="utf-8")
    os.replace(aside, path)


@cache
def read_survey(path: Path) -> Mapping[str, Usable]:
    """The usable samples by entry; empty if there is no survey."""
    survey = _survey(path)
    entries = survey.entries if survey is not None else {}
    return {name: {dtype: parse_positions(text) for dtype, text in dtypes.items()} for name, dtypes in entries.items()}


def surveyed_torch(path: Path) -> str:
    """The version of torch whose samples the survey lists, without what it was built for; empty if there is none."""
    survey = _survey(path)
    return survey.torch.partition("+")[0] if survey is not None else ""


@cache
def _survey(path: Path) -> Survey | None:
    return msgspec.json.decode(path.read_bytes(), type=Survey) if path.exists() else None


def spell_positions(positions: Sequence[int]) -> str:
    """(0, 1, 2, 3, 7) as `0-3,7`."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1][1:] = [position]
        else:
            runs.append([position])
    return ",".join("-".join(map(str, run)) for run in runs)


def parse_positions(text: str) -> tuple[int, ...]:
    """`0-3,7` as (0, 1, 2, 3, 7)."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return tuple(position for low, _, high in ranges for position in range(int(low), int(high or low) + 1))


def spread(positions: Sequence[int], number: int) -> tuple[int, ...]:
    """This number of positions, evenly spread from the first to the last; all if there are not more."""
    if len(positions) <= number:
        return tuple(positions)
    step = (len(positions) - 1) / max(number - 1, 1)
    return tuple(positions[round(turn * step)] for turn in range(number))


def first_dtype(usable: Usable, among: Iterable[Dtype] = FIRST_DTYPES) -> Dtype | None:
    """The dtype in which an entry is run if one is enough; None if no sample is usable."""
    return next((dtype for dtype in among if usable.get(dtype)), None)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace('":"', '": "').replace('","', '", "')
