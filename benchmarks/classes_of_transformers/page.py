"""The page of the documentation that says which classes of transformers are exported right, and which are not."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence

from benchmarks.classes_of_transformers.skipped import SKIPPED
from benchmarks.classes_of_transformers.trying import Outcome, Result

__all__ = ["written_page"]

_BEGINNING = """# Classes of transformers

    python -m benchmarks.classes_of_transformers --output classes.jsonl --page docs/classes_of_transformers.md

writes this page. It exports classes of models of transformers with dynamic axes and without, at opset 18, and verifies
both models: they are run in onnxruntime, and compared with eager PyTorch for several inputs and sizes. One class of
each architecture comes first, then a second one of each, and so on: a call takes as many as the time allows, and the
next one goes on. A configuration is the default one with small sizes. Where an export is refused with the advice to
call `model.set_experts_implementation('grouped_mm')`, the model is exported after that.
"""
_SKIPPED = """
## What transformers' own exporter skips

The tests of transformers' exporter skip these classes for ONNX, with the reasons that stand there.
The last column is the processor time of both exports here, each with its verification.

| class | why it is skipped there | static | dynamic | time |
|---|---|---|---|--:|"""
_NOT_RIGHT = """
## What is not right

Classes that are right for the sizes that they state take another branch at other sizes, such as where a table of
positions is too short and is made anew. The export warns of it, and says what to give as `assume`.

"Eager has two results" are classes whose attention is not causal where the attention mask has no padding, because
transformers then leaves the mask out, and causal otherwise. The model always has the mask, as transformers says that an
export should.
"""
_NOT_RUN = """
## What eager does not run

{count} more classes have no small configuration that fits together, or need inputs that are not made up for them:
"""


def written_page(found: Sequence[Result]) -> str:
    """The figures, each class that is not right with its reason, and those that nothing can be said of."""
    counts = {
        shapes: Counter(each.outcome for each in found if each.shapes == shapes) for shapes in ("static", "dynamic")
    }
    judged = [each for each in Outcome if each not in (Outcome.NOT_RUN, Outcome.ONE_SIZE)]
    lines = [_BEGINNING, "| axes | classes | " + " | ".join(judged) + " |", "|---|--:" + "|--:" * len(judged) + "|"]
    for shapes, numbers in counts.items():
        cells = [sum(numbers[each] for each in judged), *(numbers[each] for each in judged)]
        lines.append(f"| {shapes} | " + " | ".join(map(str, cells)) + " |")
    lines += _skipped(found)
    lines += [_NOT_RIGHT, "| class | axes | what it is | reason |", "|---|---|---|---|"]
    for each in sorted(found, key=lambda each: (each.outcome, each.name)):
        if each.outcome in judged and each.outcome is not Outcome.RIGHT:
            in_package = re.sub(r"\S*/site-packages/", "", each.reason)
            reason = in_package.replace("|", "\\|").replace("<", "&lt;")[:300]
            lines.append(f"| {each.name} | {each.shapes} | {each.outcome} | {reason} |")
    of: defaultdict[Outcome, list[str]] = defaultdict(list)
    for each in found:
        of[each.outcome].append(each.name)
    if of[Outcome.ONE_SIZE]:
        lines += ["\nEager runs these at the sizes of the example only:", _listed(of[Outcome.ONE_SIZE])]
    lines += [_NOT_RUN.format(count=len(of[Outcome.NOT_RUN])).rstrip(), _listed(of[Outcome.NOT_RUN]), ""]
    return "\n".join(lines)


def _skipped(found: Sequence[Result]) -> list[str]:
    results = {(each.name, each.shapes): each for each in found}
    rows = []
    for reason, names in SKIPPED.items():
        for name in sorted(names):
            both = [results[name, shapes] for shapes in ("static", "dynamic") if (name, shapes) in results]
            if both:
                outcomes = " | ".join(each.outcome for each in (both * 2)[:2])
                rows.append(f"| {name} | {reason} | {outcomes} | {sum(each.seconds for each in both):.0f} s |")
    return [_SKIPPED, *rows] if rows else []


def _listed(names: Sequence[str]) -> str:
    return textwrap.fill(", ".join(sorted(names)) + ".", 119)
