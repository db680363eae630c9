"""What pytest collects of lists of cells: an item for each expectation, and one for all names of another list."""

from __future__ import annotations

import difflib
import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from onnx_parity.harness.axes import (
    ADAPTERS,
    CONVERTERS,
    MIDDLE_OPSET,
    ONNX_REFERENCE,
    ONNXRUNTIME,
    OPSETS,
    OPTIMISATION_LEVELS,
    PARITY,
    TRANSFORMATION_NAMES,
    Capture,
    Device,
    Selection,
    Tier,
)
from onnx_parity.harness.expecting import unsupported, warned
from onnx_parity.harness.expecting.expectations import (
    FOLDER,
    Expectation,
    ExpectationError,
    file_of,
    lacks_package,
    load,
    opsets_of,
)

if TYPE_CHECKING:
    from onnx_parity.harness.case import Declaration


_Point = TypeVar("_Point", bound=str)


class NamesFile(pytest.File):
    """An `unsupported.toml` or a `warnings.toml`, collected so that a text that names no case fails."""

    def collect(self) -> Iterator[NamesItem]:
        list_ = warned if self.path.name == warned.FILE else unsupported
        try:
            file = list_.load_once(self.path)
        except ExpectationError as error:
            raise self.CollectError(str(error)) from error
        assert file is not None
        yield NamesItem.from_parent(self, name="names", named=file.named)


class NamesItem(pytest.Item):
    """All texts of the file. It passes if each names cases of the declarations in its folder."""

    def __init__(self, *, named: Sequence[unsupported.Refused], **node: Any) -> None:
        super().__init__(**node)
        self._named = named

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name

    def runtest(self) -> None:
        declared: dict[str, set[str]] = {}
        for name, declaration in _declared(self.path.parent).all:
            names = declared.setdefault(declaration.file.stem, set())
            for case in declaration.cases(name):
                names.update((case.label.partition("[")[0], unsupported.exactly(case.label)))
        gone = [
            f"[{each.family}] {each.text!r}"
            for each in self._named
            if each.family != unsupported.EVERY and each.name not in declared.get(each.family, ())
        ]
        if gone:
            pytest.fail(
                f"{self.path.parent.name}/{self.path.name}: no case has this name: {', '.join(gone)}. Remove it, or "
                "run `parity expect --update` after a run of these cases.",
                pytrace=False,
            )


class ExpectationsFile(pytest.File):
    """An `expectations.toml`, collected so that an expectation that matches no cell fails."""

    def collect(self) -> Iterator[ExpectationItem]:
        try:
            expectations = load(self.path)
        except ExpectationError as error:
            raise self.CollectError(str(error)) from error
        for expectation in expectations:
            yield ExpectationItem.from_parent(self, name=expectation.cells, expectation=expectation)


class ExpectationItem(pytest.Item):
    """An expectation. It passes if its selector matches a cell of the declarations in its folder."""

    def __init__(self, *, expectation: Expectation, **node: Any) -> None:
        super().__init__(**node)
        self._expectation = expectation

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name

    def _subject(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The runtimes and the chains of transformations whose cells the file is read for."""
        usual = (ONNXRUNTIME, *(f"{ONNXRUNTIME}:{level}" for level in OPTIMISATION_LEVELS), ONNX_REFERENCE)
        if self.path.parent.name != FOLDER:
            return usual, ((),)
        if self.path.stem in ADAPTERS:
            return (self.path.stem,), ((),)
        converters = (f"{converter}:{opset}" for converter in CONVERTERS for opset in OPSETS)
        names = {Path(file_of(name)).stem: name for name in (*TRANSFORMATION_NAMES, *converters)}
        return (*usual, *ADAPTERS), ((names.get(self.path.stem, self.path.stem),),)

    def runtest(self) -> None:
        if self._expectation.lacks:
            pytest.fail(
                f"{self.path.parent.name}/{self.path.name}: the expectation {self._expectation.cells!r} needs "
                f"{self._expectation.lacks}, which explain it to later readers. Until then its cells fail.",
                pytrace=False,
            )
        if lacks_package(self._expectation):
            # The models that a package lists are no cells then.
            return
        # Collecting needs neither torch nor the exporters, which take long to import.
        from onnx_parity.harness.matrix.cells import cells_of
        from onnx_parity.harness.subjects.exporters import EXPORTERS

        runtimes, transforms = self._subject()
        everything = Selection(
            tier=Tier.FULL,
            opsets=OPSETS,
            devices=tuple(Device),
            exporters=tuple(EXPORTERS),
            runtimes=runtimes,
            captures=tuple(Capture),
            transforms=transforms,
        )
        # Nearly every expectation matches some of these cells, which are one in thousands.
        likely = replace(
            everything,
            opsets=(max(opsets_of(self._expectation.opset), default=MIDDLE_OPSET),),
            devices=_first(tuple(Device), self._expectation.device),
            exporters=_first((PARITY, *EXPORTERS), self._expectation.exporter),
            runtimes=_first(runtimes, self._expectation.runtime),
            captures=_first(tuple(Capture), self._expectation.capture),
        )
        declarations = self.path.parents[1] if self.path.parent.name == FOLDER else self.path.parent
        candidates = _declared(declarations).beginning_like(self._expectation.beginning)
        one_of_each: dict[str, str] = {}
        for selection in (likely, everything):
            for name, declaration in candidates:
                # Only cases that it may match, because the samples of OpInfo have millions of cells.
                for cell in cells_of(name, declaration, selection, self._expectation.may_match):
                    if self._expectation.matches(cell.id):
                        return
                    one_of_each.setdefault(cell.case.label, cell.id)
        for name, declaration in _declared(declarations).all:
            # One cell of each other declaration is enough for a suggestion.
            for cell in itertools.islice(cells_of(name, declaration, everything), 1):
                one_of_each.setdefault(cell.case.label, cell.id)
        close = difflib.get_close_matches(self._expectation.cells, one_of_each.values(), n=1, cutoff=0.0)
        pytest.fail(
            f"{self.path.relative_to(declarations.parent)}: the expectation {self._expectation.cells!r} matches no "
            f"cell of {declarations.name}/. "
            "Remove or correct it." + (f" A similar cell is {close[0]}" if close else ""),
            pytrace=False,
        )


class _Declared:
    """The declarations of a folder, each with its name, found once for its thousands of expectations."""

    def __init__(self, folder: Path) -> None:
        from onnx_parity.harness.cases.declarations import declared_under

        self.all = sorted(declared_under(folder), key=itemgetter(0))
        self._names = [name for name, _ in self.all]

    def beginning_like(self, beginning: str) -> list[tuple[str, Declaration]]:
        """Those whose cells' ids may begin with this: the text begins with the name, or the name with the text."""
        found: list[tuple[str, Declaration]] = []
        for length in range(len(beginning)):
            found += self._from(beginning[:length], str.__eq__)
        return found + self._from(beginning, str.startswith)

    def _from(self, text: str, fits: Callable[[str, str], bool]) -> list[tuple[str, Declaration]]:
        first = bisect_left(self._names, text)
        return list(itertools.takewhile(lambda each: fits(each[0], text), itertools.islice(self.all, first, None)))


@cache
def _declared(folder: Path) -> _Declared:
    return _Declared(folder)


def _first(points: tuple[_Point, ...], wanted: str | tuple[str, ...]) -> tuple[_Point]:
    """The first point of an axis that an expectation is narrowed to; the first of all if it is to none of them."""
    named = (wanted,) if isinstance(wanted, str) else wanted
    return (next((each for each in points if each in named), points[0]),)
