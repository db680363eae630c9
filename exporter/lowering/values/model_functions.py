"""The local functions of a model under construction. Equal ones are shared; others of the same name are numbered."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["Functions"]


class Functions:
    """Functions by domain and name, in the order in which they were added."""

    def __init__(self) -> None:
        self._functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self._bodies: dict[tuple[str, str], dict[bytes, str]] = {}

    def add(self, domain: str, name: str, function: ir.Function) -> str:
        """Add a function, unless an equal one is known, and return the name by which it is called."""
        # Functions are compared under the same name, because equal ones may have different numbers.
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
