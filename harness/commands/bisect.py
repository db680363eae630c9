"""`parity bisect`: finds the release of a distribution that broke something, and the one that mended it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onnx_parity.harness.commands.cell import AsJson, Seed, expected_errors_in_one_line, find
from onnx_parity.harness.commands.defaults import Places
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

if TYPE_CHECKING:
    from packaging.version import Version

    from onnx_parity.harness.bisecting.bisection import Bisection
    from onnx_parity.harness.bisecting.releases import Releases
    from onnx_parity.harness.bisecting.subjects import Answer, Subject

#: So many releases without a wheel are named.
_MOST_NAMED = 6


def bisect(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CELL_OR_BUNDLE",
            help="The id of a cell, the folder of a bundle or a finding, or a script that ends with 0 if all is well.",
        ),
    ],
    distribution: Annotated[
        str, typer.Argument(metavar="DISTRIBUTION", help="What pip installs: onnxruntime, onnx, torch, openvino, ...")
    ],
    seed: Seed,
    paths: Places = None,
    oldest: Annotated[str | None, typer.Option("--from", help="The oldest release to test.")] = None,
    newest: Annotated[str | None, typer.Option("--to", help="The newest release to test.")] = None,
    prereleases: Annotated[bool, typer.Option("--pre", help="Test prereleases as well.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Of a finding: write the answer into its finding.toml.")] = False,
    environments: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the environments. Default: in the user's cache, from where they can be used again."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find out which release of a distribution broke something, and which one mended it.

    Releases are installed by pip from the index of its settings, each into an environment of its own, which is kept.
    Other packages are those that are installed here, unless a release needs other ones. The releases are halved, so
    that about ten of a hundred are tested. A defect is assumed to have come once and gone once.

    A cell or bundle whose failure the runtime causes is judged by its model: `repro.py` is run with each release of
    the runtime. With a release of anything else, the cell is exported and run again. A finding is judged by its
    script, as is any script that ends with 0 if all is well, and otherwise ends as it does now. A release that ends in
    another way, such as one that does not know the opset of the model, says nothing.

    The answer is kept in the bundle and is part of the text of `parity repro CELL --issue`.

    Exit codes: 0 if it is known since when it is there; 1 if no release that was tested fails; 2 if the command was
    used wrongly, or the index could not be reached.

    Examples:

        parity bisect "elu[alpha=0.5]-float32-opset9-cpu-trace-openvino" openvino --from 2024.0

        parity bisect runs/last/failures/elu_alpha=0.5_-float32-opset9 onnxruntime

        parity bisect findings/onnxruntime_mod_of_large_integers onnxruntime --keep

        parity bisect wrong.py onnx --from 1.15 --json
    """
    from onnx_parity.harness.bisecting.bisection import bisect as search
    from onnx_parity.harness.bisecting.environments import Environments, cache_folder
    from onnx_parity.harness.bisecting.releases import releases_of
    from onnx_parity.harness.bisecting.subjects import Answer, Verdict

    with expected_errors_in_one_line(), _bisect_errors_in_one_line():
        if keep and not _is_finding(Path(target)):
            refuse("--keep writes into a finding: give the folder of one, such as findings/NAME.")
        known = releases_of(distribution, prereleases=prereleases)
        chosen = _within(known, oldest, newest)
        if not as_json:
            print_text(_describe(known, chosen), error=True)
        subject, bundle = _subject_of(target, distribution, paths, seed)
        places = Environments(environments or cache_folder() / "environments")
        here = _installed(distribution)

        def test(version: Version) -> Answer:
            if version == here:
                answer = subject.run(sys.executable)
            else:
                environment = places.of(distribution, version)
                unusable = Answer(Verdict.OTHER, f"it cannot be used here: {environment.unusable}")
                answer = unusable if environment.unusable else subject.run(environment.python)
            if not as_json:
                print_text(f"{distribution} {version}: {answer.verdict}{answer.line and f'  ({answer.line})'}")
            return answer

        found = search(chosen, here, test)
    if keep and found.history.words:
        _keep(Path(target), found)
    if bundle is not None and found.history.words:
        from onnx_parity.harness.bisecting.history import add_history

        add_history(bundle, distribution, found.history)
    if as_json:
        print_json(_as_json(distribution, known, found))
    else:
        print_text(f"{distribution}: {found.words} ({len(found.tested)} of {len(chosen)} releases tested)")
    raise typer.Exit(0 if found.history.words else 1)


@contextmanager
def _bisect_errors_in_one_line() -> Iterator[None]:
    from onnx_parity.harness.bisecting.releases import BisectError

    try:
        yield
    except BisectError as error:
        refuse(str(error))


def _installed(distribution: str) -> Version | None:
    """The release that is installed here, if any, without the local part of its version."""
    from importlib import metadata

    from packaging.version import Version

    try:
        return Version(Version(metadata.version(distribution)).public)
    except metadata.PackageNotFoundError:
        return None


def _within(known: Releases, oldest: str | None, newest: str | None) -> list[Version]:
    from packaging.version import InvalidVersion, Version

    try:
        low, high = (Version(each) if each else None for each in (oldest, newest))
    except InvalidVersion as error:
        refuse(f"--from and --to are versions, such as 1.20.0: {error}")
    chosen = [each for each in known.usable if (low is None or each >= low) and (high is None or each <= high)]
    if not chosen:
        refuse(
            f"there is no release of {known.distribution} in this range that has a wheel for this Python. There are "
            f"{known.usable[0]} to {known.usable[-1]}."
        )
    return chosen


def _describe(known: Releases, chosen: list[Version]) -> str:
    lines = [f"{known.distribution}: {len(chosen)} releases, {chosen[0]} to {chosen[-1]}"]
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    without = [str(each) for each in known.without_wheel]
    if without:
        named = without if len(without) <= _MOST_NAMED else [*without[:2], "...", *without[-2:]]
        number = "1 release has" if len(without) == 1 else f"{len(without)} releases have"
        lines.append(f"{number} no wheel for Python {python} on this platform: {', '.join(named)}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Bundle:
    """What a bundle says of itself."""

    cell: str
    runtime: str
    has_model: bool

    @classmethod
    def of(cls, folder: Path) -> _Bundle:
        from onnx_parity.harness.bisecting.history import BUNDLE

        said = json.loads((folder / BUNDLE).read_bytes())
        again = said["again"]
        return cls(again[0].rpartition("::")[2] if again else "", said["runtime"], (folder / "model.onnx").exists())


def _subject_of(target: str, distribution: str, paths: list[Path] | None, seed: int) -> tuple[Subject, Path | None]:
    """What is run at each release, and the bundle that the answer belongs to."""
    from onnx_parity.harness.bisecting.history import BUNDLE
    from onnx_parity.harness.bisecting.subjects import CellAgain, Script
    from onnx_parity.harness.judging.bundle import slug
    from onnx_parity.harness.search.ledger import SCRIPT

    path = Path(target)
    if path.is_file():
        return Script(path), None
    if _is_finding(path):
        return Script(path / SCRIPT), None
    if path.is_dir() and not (path / BUNDLE).exists():
        refuse(f"{path} is neither a bundle nor a finding: it has no {BUNDLE}, and no finding.toml.")
    if not path.is_dir():
        from onnx_parity.harness.commands.repro import run_and_bundle

        suspect = find(target, paths)
        path = Path("repro") / slug(suspect.id)
        run_and_bundle(suspect, seed, path)
    bundle = _Bundle.of(path)
    if bundle.has_model and distribution in _run_by(bundle.runtime):
        return Script(path / "repro.py"), path
    if not bundle.cell:
        refuse(f"{path} does not say which cell it is of, so that it cannot be exported again with {distribution}.")
    return CellAgain(bundle.cell, seed), path


def _run_by(runtime: str) -> tuple[str, ...]:
    """The distributions that run a model."""
    from onnx_parity.harness.subjects.runtimes import RUNTIMES

    return RUNTIMES[runtime].packages


def _is_finding(path: Path) -> bool:
    from onnx_parity.harness.search.ledger import FILE

    return (path / FILE).is_file()


def _keep(folder: Path, found: Bisection) -> None:
    from onnx_parity.harness.search.ledger import FILE, as_toml, read

    history = found.history
    finding = msgspec.structs.replace(read(folder), since=history.since, fixed_in=history.fixed_in)
    (folder / FILE).write_text(as_toml(finding), encoding="utf-8")


def _as_json(distribution: str, known: Releases, found: Bisection) -> object:
    return {
        "distribution": distribution,
        "since": found.history.since,
        "fixed_in": found.history.fixed_in,
        "says": found.words,
        "tested": [
            {"version": str(version), "is": answer.verdict, "prints": answer.line}
            for version, answer in sorted(found.tested.items())
        ],
        "without_wheel": [str(each) for each in known.without_wheel],
    }
