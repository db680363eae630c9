"""The register of rules. A rule chooses operands and solves an operator's constraints for them."""

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
