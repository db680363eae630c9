"""The vocabulary of declaration files whose cases are PyTorch's own OpInfo samples.

    opinfo = entries({"clamp": ("clamp", "clamp_min"), "div": ("div.floor_rounding",)})

Every usable sample of an entry is a case, `opinfo.clamp[sample=3]`. The number is the sample's position among all
samples of the entry, so that the same sample has the same name in every tier. The default tier runs four of them,
evenly spread, in one dtype at one opset; the full tier runs all in all dtypes, at the opsets at which operators change.
`--samples` is another number of them.

    operator_database = every_operator(besides=opinfo)
    module_database = every_module()

declare whole databases: all of torch's operators, or modules, of which the survey beside the file has usable samples.
The default tier runs the first sample of each, in one dtype at one opset.

The tensors of a sample are the program's inputs. All other arguments, such as dims and modes, are part of the program,
which calls the operator twice: the second call in a program may be exported otherwise than the first.
The usable samples are listed in a survey beside the declarations, because importing OpInfo takes seconds and drawing
all samples takes minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from onnx_parity.harness.axes import Device, Dtype, Selection, Tier
from onnx_parity.harness.case import Case, DeclarationError, Listing
from onnx_parity.harness.cases.opinfo_entries import (
    DTYPES,
    EXCLUDED,
    FEW,
    Database,
    Usable,
    first_dtype,
    read_survey,
    spread,
    survey_path,
    surveyed_torch,
)
from onnx_parity.harness.cases.program import CannotBuildError, InputSet, OwnProgram, Program
from onnx_parity.harness.record import Kind

if TYPE_CHECKING:
    from onnx_parity.harness.cases.opinfo_samples import Sample

#: All opsets of all samples would be 670,000 cells for the operators of op_cases/opinfo.py, and as many items in every
#: worker of pytest.
FULL_OPSETS = (7, 9, 11, 13, 18, 26)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpInfoDeclaration(Listing):
    """Entries of `op_db`, by the operator to which they belong."""

    entries: Mapping[str, tuple[str, ...]]
    #: The number of samples of an entry that are run outside the full tier.
    few: int = FEW
    #: The database, all of whose entries are meant; None if they are named.
    database: Database | None = None

    def select(self, name: str, selection: Selection) -> Iterator[tuple[Case, tuple[Dtype, ...]]]:
        full = selection.tier is Tier.FULL
        # None and 0 are all of them.
        number = selection.samples if selection.samples is not None else None if full else self.few
        for entry in self.entry_names:
            usable = self.usable(entry)
            first = first_dtype(usable)
            # An entry of complex numbers alone has none of `DTYPES`. The full tier has whatever the others have.
            own = () if first is None else (first,)
            dtypes = tuple(dict.fromkeys((*DTYPES, *own))) if full else own
            chosen = {
                dtype: frozenset(spread(usable[dtype], number) if number else usable[dtype])
                for dtype in selection.dtypes or dtypes
                if dtype in usable
            }
            positions = sorted(frozenset().union(*chosen.values()))
            for position in positions:
                label = f"{name}.{entry}[sample={position}]"
                case = SampleCase(self, f"{name}.{entry}", label, {}, entry, position, positions[-1] + 1)
                yield case, tuple(dtype for dtype, places in chosen.items() if position in places)

    @property
    def entry_names(self) -> tuple[str, ...]:
        return tuple(entry for group in self.entries.values() for entry in group)

    def usable(self, entry: str) -> Usable:
        """The usable samples of an entry, from the survey, or by drawing the samples if the survey lacks the entry."""
        surveyed = read_survey(survey_path(self.file))
        if entry in surveyed:
            return surveyed[entry]
        from onnx_parity.harness.cases.opinfo_samples import usable_samples

        try:
            return usable_samples(entry)
        except DeclarationError as error:
            raise DeclarationError(f"{self.place}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class SampleCase(Case, OwnProgram):
    """One sample of an entry, by its position among all samples of the entry."""

    entry: str
    position: int
    #: How many samples of the entry are drawn, for all of its cases; None for all that it has.
    drawn: int | None = None

    def build(self, dtype: Dtype, device: Device, run_seed: int) -> Program:
        from onnx_parity.harness.cases.opinfo_samples import SampleModule

        return SampleProgram(
            case=self,
            dtype=dtype,
            device=device,
            seed=run_seed,
            module=SampleModule(self.sample(dtype, run_seed, InputSet())).to(device),
            makers={},
            weight_bytes=0,
            sample=partial(self.sample, dtype, run_seed),
        )

    def sample(self, dtype: Dtype, run_seed: int, which: InputSet) -> Sample:
        """The sample of an input set."""
        from onnx_parity.harness.cases.opinfo_samples import sample_at, sample_seed

        seed = sample_seed(run_seed, self.entry, which.draw)
        other = self._surveyed_with_another_torch()
        try:
            sample = sample_at(self.entry, dtype, self.position, seed, self.drawn)
        except DeclarationError:
            if other:
                raise CannotBuildError(f"torch {torch.__version__} has no {self.entry}; {other} has it") from None
            raise
        if sample is None and other:
            raise CannotBuildError(
                f"torch {torch.__version__} has no sample {self.position} of {self.entry} in {dtype}; {other} has it"
            )
        if sample is None:
            raise DeclarationError(
                f"{self.declaration.place}: {self.entry} has no sample of {dtype} at {self.position} in torch "
                f"{torch.__version__}. Update {survey_path(self.declaration.file).name}: parity opinfo-survey."
            )
        return sample

    def _surveyed_with_another_torch(self) -> str:
        """The version of torch of which the sample is declared, if it is another than the one here; otherwise empty."""
        path = survey_path(self.declaration.file)
        surveyed = surveyed_torch(path) if self.entry in read_survey(path) else ""
        return f"torch {surveyed}" if surveyed not in ("", torch.__version__.partition("+")[0]) else ""


@dataclass(frozen=True, slots=True)
class SampleProgram(Program):
    """The program of a sample, whose inputs are drawn by torch."""

    sample: Callable[[InputSet], Sample]

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.sample(InputSet()).input_names

    def inputs(self, which: InputSet) -> tuple[torch.Tensor, ...]:
        example, asked = self.sample(InputSet()), self.sample(which)
        # Another draw may have other sizes or another dim, and so be another program. Then the example is run again.
        tensors = asked.tensors if asked.is_same_call(example) else example.tensors
        return tuple(tensor.to(self.device) for tensor in tensors)


def entries(groups: Mapping[str, Iterable[str]]) -> OpInfoDeclaration:
    """Declare the samples of entries of `op_db`, grouped by the operator to which they belong.

    An entry's name is its operator's, followed by a dot and its variant if it has one: `norm`, `norm.fro`.
    """
    file, line = _find_place()
    grouped = {operator: tuple(names) for operator, names in groups.items()}
    counts = Counter(name for names in grouped.values() for name in names)
    for name, count in counts.items():
        if count > 1:
            raise DeclarationError(f"{file}:{line}: entry {name!r} is declared {count} times. Leave one.")
        if name in EXCLUDED:
            raise DeclarationError(f"{file}:{line}: entry {name!r} makes no cases: {EXCLUDED[name]}. Leave it out.")
    return _declaration(file, line, grouped)


def every_operator(besides: OpInfoDeclaration | None = None) -> OpInfoDeclaration:
    """Declare all entries of `op_db` with usable samples, except those that another declaration names."""
    return _whole(Database.OPERATORS, *_find_place(), frozenset(besides.entry_names if besides is not None else ()))


def every_module() -> OpInfoDeclaration:
    """Declare all entries of `module_db` with usable samples."""
    return _whole(Database.MODULES, *_find_place(), frozenset())


def _find_place() -> tuple[Path, int]:
    # The frame that called the caller is the declaration, as it is for `op` and `model`.
    frame = sys._getframe(2)
    return Path(frame.f_code.co_filename), frame.f_lineno


def _whole(database: Database, file: Path, line: int, besides: frozenset[str]) -> OpInfoDeclaration:
    names = [name for name, usable in read_survey(survey_path(file)).items() if usable and name not in besides]
    return _declaration(file, line, {name: (name,) for name in names}, few=1, database=database)


def _declaration(
    file: Path, line: int, grouped: Mapping[str, tuple[str, ...]], few: int = FEW, database: Database | None = None
) -> OpInfoDeclaration:
    return OpInfoDeclaration(
        kind=Kind.OPERATOR,
        dtypes=DTYPES,
        full_opsets=FULL_OPSETS,
        file=file,
        line=line,
        entries=grouped,
        few=few,
        database=database,
    )
