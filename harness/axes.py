"""The axes of the matrix, and the points on them that a selection contains. Independent of cases, torch and onnx."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar

#: Every opset that the exporter writes and onnx knows. This equals `OPSETS` of `exporter/request/opsets.py`, as a test
#: checks. It is not imported, because that would import torch into every pytest that has the plug-in.
OPSETS = tuple(range(7, 29))
#: The opsets that onnxruntime runs (`NEWEST_OF_ONNXRUNTIME` in that file). Cells above them run on onnx.reference.
ONNXRUNTIME_OPSETS = tuple(opset for opset in OPSETS if opset <= 26)
_OLDEST, _NEWEST = ONNXRUNTIME_OPSETS[0], ONNXRUNTIME_OPSETS[-1]

#: The opset of every case, and the opsets of the first case of each declaration in the smoke tier.
MIDDLE_OPSET = 18
SMOKE_OPSETS = (9, MIDDLE_OPSET, _NEWEST)
#: The opsets at which some common operator changes its form, in parts that cases take in turn.
TURNING_OPSETS = (
    (9, MIDDLE_OPSET), (11, MIDDLE_OPSET), (MIDDLE_OPSET, _NEWEST), (13, MIDDLE_OPSET), (_OLDEST, MIDDLE_OPSET),
    (MIDDLE_OPSET, 23), (10, MIDDLE_OPSET), (MIDDLE_OPSET, 21), (16, MIDDLE_OPSET),
)  # fmt: skip
#: Each opset, in parts that declarations take in turn.
EVERY_OPSETS = tuple(
    tuple(opset for opset in ONNXRUNTIME_OPSETS if opset % 8 == part or opset in SMOKE_OPSETS) for part in range(8)
)
#: Those of them that dtypes, dynamic sizes and models take in turn, each at one.
SPREAD_OPSETS = (
    (9,), (MIDDLE_OPSET,), (13,), (_NEWEST,), (11,), (MIDDLE_OPSET,), (23,), (MIDDLE_OPSET,),
)  # fmt: skip
#: The oldest opset that most runtimes support, and the newest that torch's own exporters write.
FEW_OPSETS = (9, 18)

#: The first opset that has bfloat16: before it, every cell of this dtype is refused for this reason.
FIRST_BFLOAT16 = 13

ONNXRUNTIME = "onnxruntime"
ONNX_REFERENCE = "onnx.reference"
#: onnxruntime with a lower level of graph optimisation: `onnxruntime:basic`. Without a level it optimises fully.
OPTIMISATION_LEVELS = ("none", "basic", "extended", "layout")
#: onnxruntime with another execution provider than its own for the device, as the installed package has it.
EXECUTION_PROVIDERS = ("openvino", "tensorrt")
#: Runtimes of other projects: for each of these there is a file of this name in `harness/subjects/adapters/`.
ADAPTERS = ("openvino", "tract", "tinygrad", "emx", "iree", "tvm", "jaxonnxruntime", "opencv")
RUNTIME_NAMES = (
    ONNXRUNTIME,
    *(f"{ONNXRUNTIME}:{each}" for each in (*OPTIMISATION_LEVELS, *EXECUTION_PROVIDERS)),
    ONNX_REFERENCE,
    *ADAPTERS,
)
#: The prefix for a module with the ONNX backend interface: `backend:onnxruntime.backend`.
BACKEND = "backend:"

#: What may be done to a model between its export and its run. A chain of them is written `onnxslim+float16`.
TRANSFORMATION_NAMES = (
    *(f"ort:{level}" for level in ("basic", "extended", "layout", "all")),
    "onnxslim", "onnxsim", "onnxscript:optimize", "onnxscript:rewrite", "float16", "float16:mixed", "quantize:dynamic",
    "quantize:qdq", "quantize:qoperator",
)  # fmt: skip
#: The transformations that end at an opset: `convert:13`, `onnxscript:convert:13`.
CONVERTERS = ("convert", "onnxscript:convert")
#: On the axis of transformations, the model as it was exported; and what joins the transformations of a chain.
NO_TRANSFORMATION, THEN = "none", "+"

#: This project's own exporter, both of torch's, and that of transformers.
PARITY = "parity"
TORCH_DYNAMO = "torch_dynamo"
TORCH_SCRIPT = "torch_script"
TRANSFORMERS = "transformers"
#: Those that export any program, of which searches generate some.
GENERAL_EXPORTERS = (PARITY, TORCH_DYNAMO, TORCH_SCRIPT)
EXPORTER_NAMES = (*GENERAL_EXPORTERS, TRANSFORMERS)

_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_BACKEND = re.compile(rf"{BACKEND}{_MODULE}")
_FUNCTION = re.compile(rf"{_MODULE}:{_MODULE}")
_CONVERTER = re.compile(rf"(?P<converter>{'|'.join(CONVERTERS)}):(?P<opset>\d+)")


class AxisError(ValueError):
    """An option names a point that is not on its axis. The message lists the points of the axis."""


class Tier(StrEnum):
    """How much of the matrix runs. Each tier contains the one before it."""

    SMOKE = "smoke"
    DEFAULT = "default"
    FULL = "full"

    def includes(self, other: Tier) -> bool:
        order = list(Tier)
        return order.index(other) <= order.index(self)


class Dtype(StrEnum):
    """The dtype of a cell. Inputs that pin their own dtype keep it."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    BOOL = "bool"
    COMPLEX64 = "complex64"

    @property
    def is_floating(self) -> bool:
        return self in FLOATING


FLOATING = (Dtype.FLOAT32, Dtype.FLOAT64, Dtype.FLOAT16, Dtype.BFLOAT16)


class Device(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class Capture(StrEnum):
    """How a program becomes a graph."""

    TRACE = "trace"
    SCRIPT = "script"
    EXPORTED_PROGRAM = "exported_program"


#: The ways in which some exporters capture programs. Every other exporter is tried with all of them.
_CAPTURES = {
    TORCH_DYNAMO: (Capture.TRACE, Capture.EXPORTED_PROGRAM),
    TORCH_SCRIPT: (Capture.TRACE, Capture.SCRIPT),
    TRANSFORMERS: (Capture.TRACE,),
}


class Shapes(StrEnum):
    STATIC = "static"
    DYNAMIC = "dynamic"


class Breadth(Enum):
    """The opsets at which the smoke and the default tier run a case. To run all of them would take hours.

    The default tier has some choices of opsets, which the cases, dtypes and shapes of a declaration take in turn. So
    the declaration runs at most of them, for a fifth of what that would cost.
    """

    #: The first case of a declaration, in its first dtype, with static sizes. Declarations take turns here, so that an
    #: operator with several of them, and each mechanism that operators share, is tried at every opset.
    EVERY = (SMOKE_OPSETS, EVERY_OPSETS)
    #: Its cases with other attributes.
    TURNING = ((MIDDLE_OPSET,), TURNING_OPSETS)
    #: Other dtypes, dynamic sizes, and models that are not small, at the same opsets in both tiers. In bfloat16, the
    #: first opset that has it replaces older ones.
    SPREAD = (None, SPREAD_OPSETS)

    def __init__(self, smoke: tuple[int, ...] | None, choices: tuple[tuple[int, ...], ...]) -> None:
        self._smoke = smoke
        self._choices = choices

    def smoke(self, turn: int) -> tuple[int, ...]:
        return self.default(turn) if self._smoke is None else self._smoke

    def default(self, turn: int) -> tuple[int, ...]:
        return self._choices[turn % len(self._choices)]


@dataclass(frozen=True, slots=True)
class Selection:
    """The values of the options. For an axis that is None the tier decides."""

    tier: Tier = Tier.DEFAULT
    opsets: tuple[int, ...] | None = None
    dtypes: tuple[Dtype, ...] | None = None
    devices: tuple[Device, ...] | None = None
    exporters: tuple[str, ...] = (PARITY,)
    runtimes: tuple[str, ...] | None = None
    captures: tuple[Capture, ...] = (Capture.TRACE,)
    #: Chains of transformations; the empty one is the model as it was exported.
    transforms: tuple[tuple[str, ...], ...] = ((),)
    #: How many samples of each entry of torch's databases are run, 0 for all; None if the tier decides.
    samples: int | None = None
    #: Whether the default tier runs all cells of the cases of `costly.toml`, of which it leaves most to the full tier.
    costly: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        """The exporters and the runtimes that are asked for, and the transformations that are functions of a user."""
        used = dict.fromkeys(name for chain in self.transforms for name in chain)
        functions = (name for name in used if name not in TRANSFORMATION_NAMES and converter_of(name) is None)
        return (*self.exporters, *(self.runtimes or ()), *functions)

    def captures_of(self, exporter: str) -> tuple[Capture, ...]:
        return tuple(each for each in self.captures if each in _CAPTURES.get(exporter, tuple(Capture)))

    def opsets_of(self, breadth: Breadth, turn: int) -> tuple[int, ...]:
        """The opsets of the case, dtype and shapes of a declaration whose turn it is."""
        if self.opsets is not None:
            return self.opsets
        match self.tier:
            case Tier.SMOKE:
                return breadth.smoke(turn)
            case Tier.DEFAULT:
                return breadth.default(turn)
            case Tier.FULL:
                return OPSETS

    def runtimes_at(self, opset: int) -> tuple[str, ...]:
        if self.runtimes is not None:
            return self.runtimes
        return (ONNXRUNTIME,) if opset in ONNXRUNTIME_OPSETS else (ONNX_REFERENCE,)

    def devices_at(self, opset: int, opsets: tuple[int, ...]) -> tuple[Device, ...]:
        """CPU everywhere. Unless devices were named, also one CUDA lane at the newest opset that onnxruntime runs.

        The lane's cells exist on every machine, so that a report lists the cells that did not run here.
        """
        if self.devices is not None:
            return self.devices
        newest = max((each for each in opsets if each in ONNXRUNTIME_OPSETS), default=None)
        return (Device.CPU, Device.CUDA) if opset == newest else (Device.CPU,)


def read_selection(given: Callable[[str], str | None]) -> Selection:
    """The selection for the options as they are written on the command line; `given` returns None for those that are
    not there.
    """
    usual = Selection()
    opsets, exporters, runtimes = given("opsets"), given("exporters"), given("runtimes")
    transforms, samples = given("transforms"), given("samples")
    if samples is not None and not samples.isdecimal():
        raise AxisError(f"--samples {samples} is not a number of samples. Write 1 or more, or 0 for all.")
    return Selection(
        tier=(_of_enum(given, "tier", Tier) or (usual.tier,))[0],
        opsets=parse_opsets(opsets) if opsets is not None else None,
        dtypes=_of_enum(given, "dtypes", Dtype),
        devices=_of_enum(given, "devices", Device),
        exporters=parse_exporters(exporters) if exporters is not None else usual.exporters,
        runtimes=parse_runtimes(runtimes) if runtimes is not None else None,
        captures=_of_enum(given, "captures", Capture) or usual.captures,
        transforms=parse_transforms(transforms) if transforms is not None else usual.transforms,
        samples=int(samples) if samples is not None else None,
    )


_Axis = TypeVar("_Axis", Tier, Dtype, Device, Capture)


def _of_enum(given: Callable[[str], str | None], name: str, axis: type[_Axis]) -> tuple[_Axis, ...] | None:
    text = given(name)
    return tuple(map(axis, parse_names(f"--{name}", text, tuple(axis)))) if text is not None else None


def parse_opsets(text: str) -> tuple[int, ...]:
    """`9,13-18` as (9, 13, 14, 15, 16, 17, 18)."""
    chosen: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        high = high if dash else low
        if not low.isdecimal() or not high.isdecimal():
            raise AxisError(f"--opsets {text}: {part.strip()!r} is neither an opset nor a range. Write 9,13-18.")
        span = range(int(low), int(high) + 1)
        if not span:
            raise AxisError(f"--opsets {text}: {part.strip()!r} is in descending order. Write {high}-{low}.")
        chosen.update(span)
    outside = sorted(chosen.difference(OPSETS))
    if outside:
        raise AxisError(f"--opsets {text}: there is no opset {outside[0]} here, only {OPSETS[0]} to {OPSETS[-1]}.")
    return tuple(sorted(chosen))


def parse_names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """`cpu,cuda` as ("cpu", "cuda"), each one of `known`."""
    return _parse(option, text, known, None, "")


def parse_exporters(text: str) -> tuple[str, ...]:
    """`parity,torch.onnx:export`: exporters that the harness knows, or any `module:function`."""
    return _parse("--exporters", text, EXPORTER_NAMES, _FUNCTION, ", and module:function")


def parse_runtimes(text: str) -> tuple[str, ...]:
    """`onnxruntime,backend:onnxruntime.backend`: runtimes that the harness knows, or any module that is a backend."""
    return _parse("--runtimes", text, RUNTIME_NAMES, _BACKEND, f", and {BACKEND}module")


def parse_transforms(text: str) -> tuple[tuple[str, ...], ...]:
    """`none,onnxslim+float16` as ((), ("onnxslim", "float16")): chains of transformations, one after the other."""
    return tuple(dict.fromkeys(_chain(f"--transforms {text}", part.strip()) for part in text.split(",")))


def _chain(option: str, text: str) -> tuple[str, ...]:
    if text == NO_TRANSFORMATION:
        return ()
    names = tuple(part.strip() for part in text.split(THEN))
    for name in names:
        converter = converter_of(name)
        if converter is not None and converter[1] not in OPSETS:
            raise AxisError(f"{option}: there is no opset {converter[1]} here, only {OPSETS[0]} to {OPSETS[-1]}.")
        if converter is None and name not in TRANSFORMATION_NAMES and not is_function(name):
            converters = ", ".join(f"{each}:13" for each in CONVERTERS)
            raise AxisError(
                f"{option}: there is no {name!r}, only {NO_TRANSFORMATION}, {', '.join(TRANSFORMATION_NAMES)}, "
                f"{converters}, and module:function. Join several with {THEN}."
            )
    return names


def is_function(name: str) -> bool:
    """Whether it is `module:function`, and no misspelt name of ours: those begin with a word that we use ourselves."""
    ours = {each.partition(":")[0] for each in (*TRANSFORMATION_NAMES, *CONVERTERS)}
    return _FUNCTION.fullmatch(name) is not None and name.partition(":")[0] not in ours


def converter_of(transformation: str) -> tuple[str, int] | None:
    """`convert:13` as ("convert", 13); None if it is not a converter to an opset."""
    found = _CONVERTER.fullmatch(transformation)
    return (found["converter"], int(found["opset"])) if found else None


def _parse(
    option: str, text: str, known: tuple[str, ...], others: re.Pattern[str] | None, spelled: str
) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in known and not (others and others.fullmatch(name)):
            raise AxisError(f"{option} {text}: there is no {name!r}, only {', '.join(known)}{spelled}.")
    return names
