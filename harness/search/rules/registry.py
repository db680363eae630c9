"""The register of rules. A rule adds one operator to a draft, whose constraints it solves for the operands it chooses."""

from __future__ import annotations

from collections.abc import Callable

from onnx_parity.harness.search.draft import Draft

Rule = Callable[[Draft], object]

#: The rules with the weights by which they are drawn.
RULES: dict[Rule, float] = {}


def rule(weight: float) -> Callable[[Rule], Rule]:
    """Register a rule. Its function's name is the name of the rule."""

    def register(function: Rule) -> Rule:
        RULES[function] = weight
        return function

    return register
