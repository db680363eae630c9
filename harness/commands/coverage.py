"""`parity coverage`: what the cases of ONNX operators cover of ONNX's schemas."""

from __future__ import annotations

from typing import Annotated

import typer

from onnx_parity.harness.commands.terminal import print_json, print_text


def coverage(
    absent: Annotated[
        bool,
        typer.Option("--absent", help="List what no case has, and what none can have, and why."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the coverage as JSON, with what is absent.")] = False,
) -> None:
    """Show how much of ONNX the cases of `op_cases/onnx/` cover, counted from the schemas that onnx itself has.

    A *version* is one of an operator that an opset since 7 has. A *type* is one that the schema of a version allows for
    one of its type variables: the type float of T of Add 13. Attributes count for each version too, and inputs and
    outputs that may be left out, once where they are there and once where they are not. Of an operator with inputs, a
    tensor without elements, one with an axis of size 1, and, where its text speaks of broadcasting, tensors of several
    shapes are counted.

    Exit code: 0.

    Examples:

        parity coverage

        parity coverage --absent
    """
    from onnx_parity.harness.conformance.coverage import measure
    from onnx_parity.harness.conformance.planning import declared_cases

    found = measure(declared_cases())
    if as_json:
        print_json(found)
        return
    for domain in found:
        print_text(domain.domain)
        for kind, share in domain.shares.items():
            percent = 100 * share.covered / share.known if share.known else 100.0
            print_text(f"  {kind:<26}{share.covered:>6} of {share.known:>6}  {percent:5.1f} %")
            for each in share.absent if absent else ():
                print_text(f"    absent: {each}")
            for each, why in share.exempt.items() if absent else ():
                print_text(f"    not counted: {each}: {why}")
