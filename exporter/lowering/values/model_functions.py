"""The functions of a model under construction: those alike are one, those of one name have numbers."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["Functions"]


class Functions:
    """By domain and name, in the order in which they were first called."""

    def __init__(self) -> None:
        self._functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self._bodies: dict[tuple[str, str], dict[bytes, str]] = {}

    def add(self, domain: str, name: str, function: ir.Function) -> str:
        """The name under which a function of that body can be called."""
        # Compared under one name, since that is what makes like ones differ.
        function.name = name
        body = ir.to_proto(function).SerializeToString(deterministic=True)
        bodies = self._bodies.setdefault((domain, name), {})
        known = bodies.get(body)
        if known is not None:
            return known
        unique = bodies[body] = f"{name}_{len(bodies)}" if bodies else name
        function.name = unique
        self._functions[function.identifier()] = function
        return unique

    def listed(self) -> tuple[ir.Function, ...]:
        return tuple(self._functions.values())
