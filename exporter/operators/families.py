"""The families of operators, and when their files are imported; importing a file registers the rules in it.

A process's first export waits for this module, so it imports only what most programs need. The others take a tenth of
that export's time: they are found in the folders, and are imported when a rule of theirs is first asked for.
"""

from __future__ import annotations

import functools
import os
from importlib import import_module

# These are not rules of operators' families, but are registered together with them.
import onnx_parity.exporter.lowering.custom.autograd
import onnx_parity.exporter.lowering.custom.onnx_ops  # noqa: F401
from onnx_parity.exporter import operators
from onnx_parity.exporter.dispatch.composites import register_kernels
from onnx_parity.exporter.registry.rules import Aspect, when_needed

__all__: list[str] = []

#: The files that are imported at once, each with the families that have it. An operator's overloads are all lowered in
#: these, or all in others.
_AT_ONCE = {
    "lowering": (
        "activation", "arithmetic", "attention", "comparison", "convolution", "creation", "cumulative", "elementwise",
        "embedding", "indexing", "joining", "linear_algebra", "normalization", "padding", "pooling", "reduction",
        "shape",
    ),
    "recorded": (
        "arithmetic", "attention", "comparison", "distances", "embedding", "fourier", "indexing",
        "joining", "linear_algebra", "loss", "nested_tensors", "normalization", "pooling", "random", "recurrent",
        "resize", "shape", "sorting", "special", "statistics",
    ),
    "complex_as_real": ("linear_algebra",),
    "einsum": ("linear_algebra",),
    "elementwise_binary": ("arithmetic",),
    "rearrange": ("shape",),
    "results": (
        "attention", "convolution", "indexing", "joining", "linear_algebra", "normalization", "pooling",
        "quantization", "recurrent", "shape", "sorting",
    ),
    "scatter": ("indexing",),
    "upsampling": ("resize",),
}  # fmt: skip
#: What is named so, a file of a family or a folder in it, has the rules of one aspect. All other files have lowerings.
_ASPECTS = {
    "complex": Aspect.COMPLEX,
    "decompositions": Aspect.DECOMPOSITION,
    "nested": Aspect.NESTED,
    "quantized": Aspect.QUANTIZED,
    "script": Aspect.SCRIPT,
    "sizes": Aspect.NUMBERS,
}


@functools.cache
def _import_files_of(aspect: Aspect) -> None:
    for name, its_aspect in _find_files():
        if its_aspect is aspect:
            import_module(name)


@functools.cache
def _find_files() -> list[tuple[str, Aspect]]:
    """The files in the folders of all families."""
    found = []
    root = os.path.dirname(__file__)
    for folder, _, files in os.walk(root):
        names = folder.removeprefix(root).split(os.sep)[1:]
        for file in files:
            if names and file.endswith(".py") and file != "__init__.py":
                path = [*names, file.removesuffix(".py")]
                aspects = (_ASPECTS[name] for name in path if name in _ASPECTS)
                found.append((".".join([operators.__name__, *path]), next(aspects, Aspect.LOWERING)))
    return sorted(found, key=lambda each: each[0])


@when_needed(Aspect.SCRIPT)
def _import_steps_of_scripts() -> None:
    """The steps that are TorchScript's own belong to no family."""
    from onnx_parity.exporter.script import (  # noqa: F401  (importing them registers their steps)
        steps_comparing,
        steps_on_containers,
        steps_on_objects,
        steps_on_tensors,
        steps_over_items,
    )


for _aspect in (Aspect.LOWERING, *_ASPECTS.values()):
    when_needed(_aspect)(functools.partial(_import_files_of, _aspect))
for _file, _families in _AT_ONCE.items():
    for _family in _families:
        import_module(f"{operators.__name__}.{_family}.{_file}")
register_kernels()
