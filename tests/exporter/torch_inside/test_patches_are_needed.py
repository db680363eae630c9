"""Each patch of torch has a witness, and makes the difference that its witness says."""

from __future__ import annotations

import copy
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nested._internal.nested_tensor import (
    nested_view_from_values_offsets,
    nested_view_from_values_offsets_lengths,
)

from onnx_parity.exporter import patches
from onnx_parity.exporter.torch_inside import dynamo
from onnx_parity.exporter.torch_inside.patch import Patch
from tests.exporter.torch_inside.gradients import OF_GRADIENTS
from tests.exporter.torch_inside.layouts import IMAGES, LAST, OF_LAYOUTS, TRANSPOSED, written_images
from tests.exporter.torch_inside.numbers import OF_CLASSES, OF_CONDITIONS, OF_LISTS, OF_NUMPY, OF_SIZES
from tests.exporter.torch_inside.programs import (
    FLOOR,
    HEADS,
    OFFSETS,
    OTHER_OFFSETS,
    PADDED,
    ROWS,
    SIX,
    UNKNOWN,
    Double,
    Kind,
    Scale,
    X,
    Y,
    attend,
    branching,
    compiled,
    cond,
    context_of_another_thread,
    distributed,
    encoder,
    exporting_graph,
    failure_in_the_log,
    in_library,
    map_rows,
    number_of_stack_traces,
    on_two_devices,
    order,
    padded_back,
    plain_cond,
    plain_map_rows,
    plain_scan,
    plain_while_loop,
    random,
    random_from_a_state,
    replace_memory,
    scan,
    script_of_math,
    scripted,
    seed_of_the_process,
    traced_or_itself,
    traced_or_scripted,
    until_close,
    until_close_to_half,
    until_equal,
    until_equal_to_less,
    until_small,
    while_loop,
)
from tests.exporter.torch_inside.witness import RIGHT, Witness, check, exporting
from tests.fresh import run_after_torch
from tests.thinned import one_in


def patches_by_target() -> dict[str, Patch]:
    """All patches, by the file that they are in and what they change."""
    names = [module.name for module in pkgutil.walk_packages(patches.__path__, f"{patches.__name__}.")]
    modules = [*map(importlib.import_module, names), dynamo]
    return {
        f"{module.__name__.rpartition('.')[2]}: {patch.target}": patch
        for module in modules
        for patch in (*getattr(module, "PATCHES", ()), *getattr(module, "WITH_SYMBOLS", ()))
        if patch.target
    }


@contextmanager
def without(patch: Patch) -> Iterator[None]:
    """A context in which a patch is not applied, as if what it changes did not exist."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(patch, "find" if hasattr(patch, "find") else "put_in", lambda: None)
        yield


def import_of_dynamo(target: str) -> Callable[[], str]:
    """Whether a process's first export does without the import of dynamo. The patch may be left out in this process."""
    code = f"""
import sys, torch, onnx_parity
from onnx_parity.exporter.torch_inside import dynamo
from tests.thinned import one_in
for patch in dynamo.PATCHES:
    if patch.target in sys.argv[1:]:
        setattr(patch, "find" if hasattr(patch, "find") else "put_in", lambda: None)
onnx_parity.export(torch.special.entr, (torch.ones(2, 3),))
print("dynamo is imported" if "torch._dynamo" in sys.modules else {RIGHT!r})
"""

    def outcome() -> str:
        left_out = [target] if f"dynamo: {target}" not in patches_by_target() else []
        return run_after_torch(code, *left_out).stdout.strip()

    return outcome


# --- the table --------------------------------------------------------------------------------------------------------

#: Programs that ask about the memory of a tensor, by what they ask.
OF_MEMORY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "data_ptr": lambda x: x * 2 if (x + 1).data_ptr() == (x + 2).data_ptr() else x,
    "is_set_to": lambda x: x * 2 if x.is_set_to(x[:]) else x,
    "_is_view": lambda x: x * 2 if x[:1]._is_view() else x,
    "_base": lambda x: x * 2 if x[:1]._base is x else x,
    "_version": lambda x: x * (x.add_(1)._version + 1),
}
WITNESSES: dict[str, Witness] = {
    "autograd_apply: torch.autograd.function.Function.apply": Witness(
        exporting(Double.apply, X), "must override the setup_context"
    ),
    "dynamic_lists: torch.chunk": Witness(
        exporting(lambda x: torch.cat(torch.chunk(x, x.shape[0])), X, **ROWS), "is fixed by the program", UNKNOWN
    ),
    "dynamic_lists: torch.Tensor.chunk": Witness(
        exporting(lambda x: torch.cat(x.chunk(x.shape[0])), X, **ROWS), "is fixed by the program", UNKNOWN
    ),
    "dynamic_lists: torch.unbind": Witness(
        exporting(lambda x: torch.stack(torch.unbind(x), 1), X, **ROWS), "is fixed by the program"
    ),
    "dynamic_lists: torch.Tensor.split": Witness(
        exporting(lambda x: torch.cat([row * 2 for row in x.split(1)]), X, **ROWS), "cannot become one of the model"
    ),
    "dynamic_lists: torch.Tensor.unbind": Witness(
        exporting(lambda x: torch.stack(x.unbind(0), 1), X, **ROWS), "is fixed by the program"
    ),
    "dynamic_lists: torch.SymInt.__mul__": Witness(
        exporting(lambda x: x + torch.tensor(x.shape[0] * [1.0])[:, None], X, **ROWS), "is fixed by the program"
    ),
    "dynamic_lists: torch.SymInt.__rmul__": Witness(
        exporting(lambda x: x + torch.tensor([1.0] * x.shape[0])[:, None], X, **ROWS), "is fixed by the program"
    ),
    "dynamic_lists: torch.nn.utils.rnn.pad_sequence": Witness(
        exporting(lambda x: torch.nn.utils.rnn.pad_sequence([x[x[:, 0] > 0], x[x[:, 0] < 0]]), X), "from values"
    ),
    "dynamic_lists: torch.Tensor.__iter__": Witness(
        exporting(lambda x: torch.stack([x[at[0]] for at in (x[:, 0] < 9).nonzero()]), X), "from values"
    ),
    "dynamic_lists: torch.Tensor.set_": Witness(
        exporting(replace_memory, X, Y), "Attempted to set the storage", "other memory with set_"
    ),
    "exporting_flag: torch.ceil": Witness(
        exporting(
            lambda x: x + torch.ceil(x.shape[0] / 4),
            X,
            others=[(SIX,)],
            expected=lambda x: x + math.ceil(len(x) / 4),
            **ROWS,
        ),
        "must be Tensor",
    ),
    "exporting_flag: torch.floor": Witness(
        exporting(
            lambda x: x + torch.floor(x.shape[0] / 4), X, others=[(SIX,)], expected=lambda x: x + len(x) // 4, **ROWS
        ),
        "must be Tensor",
    ),
    "exporting_flag: torch.compiler.is_exporting": Witness(
        exporting(lambda x: x + torch.compiler.is_exporting(), X, expected=lambda x: x + 1), "another result"
    ),
    "exporting_flag: torch.compiler.is_compiling": Witness(
        exporting(lambda x: x + torch.compiler.is_compiling(), X, expected=lambda x: x + 1), "another result"
    ),
    "exporting_flag: torch.jit._trace.is_tracing": Witness(
        exporting(in_library("x + torch.jit.is_tracing()"), X, expected=lambda x: x + 1), "another result"
    ),
    "exporting_flag: torch.onnx": Witness(
        exporting(lambda x: x + torch.onnx.is_in_onnx_export(), X, expected=lambda x: x + 1), "another result"
    ),
    "fake_kernels: torch._subclasses.fake_impls.nonzero": Witness(
        exporting(lambda x: x.nonzero() + 1, X, **ROWS), "has no attribute"
    ),
    "fake_kernels: torch._subclasses.fake_impls.masked_select": Witness(
        exporting(lambda x: x.masked_select(x > 0) + 1, X, **ROWS), "has no attribute"
    ),
    "fake_kernels: torch._refs._broadcast_shapes": Witness(
        exporting(
            lambda x, y: torch.zeros(torch.broadcast_shapes(x[x > 0].shape, y[y > 0].shape)),
            torch.arange(4),
            torch.arange(4),
            others=[(torch.tensor([0, 1, 0, 0]), torch.arange(4))],
        ),
        "another result",
    ),
    "fake_kernels: torch._refs._maybe_broadcast": Witness(
        exporting(lambda x: torch.lerp(x[x > 0], x[x > 1], 0.25), torch.arange(3.0)), "branches on a number"
    ),
    "fake_kernels: torch.fx.experimental.symbolic_shapes": Witness(
        exporting(lambda x: x.repeat_interleave((x > 0).sum(1), 0) + 1, X, **ROWS), "constraining non-Symbols"
    ),
    "fake_kernels: torch._library.fake_impl.set_ctx_getter": Witness(context_of_another_thread, "own and own"),
    "fake_kernels: torch.library.get_ctx": Witness(context_of_another_thread, "None and None"),
    **{
        f"gradients: {entry}": Witness(exporting(program, X, **ROWS), without)
        for entry, (program, without) in OF_GRADIENTS.items()
    },
    "higher_order: torch.cond": Witness(
        exporting(cond, X, others=[(Y,)], expected=plain_cond, may_compile=False), "compiler is started"
    ),
    "higher_order: torch._higher_order_ops.while_loop.while_loop": Witness(
        exporting(while_loop, X, others=[(Y,)], expected=plain_while_loop, may_compile=False), "compiler is started"
    ),
    "higher_order: torch._higher_order_ops.scan.scan": Witness(
        exporting(scan, X, expected=plain_scan, may_compile=False), "compiler is started"
    ),
    "higher_order: torch._higher_order_ops.map.map": Witness(
        exporting(map_rows, X, expected=plain_map_rows, may_compile=False), "compiler is started"
    ),
    "higher_order: torch._higher_order_ops.cond.CondOp.__call__": Witness(
        exporting_graph(cond, plain_cond), "could not find kernel"
    ),
    "higher_order: torch._higher_order_ops.while_loop.WhileLoopOp.__call__": Witness(
        exporting_graph(while_loop, plain_while_loop),
        "could not find kernel",
    ),
    "higher_order: torch._higher_order_ops.scan.ScanOp.__call__": Witness(
        exporting_graph(scan, plain_scan), "could not find kernel"
    ),
    "higher_order: torch._higher_order_ops.map.MapImpl.__call__": Witness(
        exporting_graph(map_rows, plain_map_rows), "could not find kernel"
    ),
    "higher_order: torch._higher_order_ops.flex_attention.FlexAttentionHOP.__call__": Witness(
        exporting(attend, HEADS), "could not find kernel"
    ),
    "higher_order: torch._functorch.vmap._flat_vmap": Witness(
        exporting(torch.vmap(order), X, **ROWS), "asks for the sizes of a tensor"
    ),
    "higher_order: torch._functorch.vmap.vmap_impl": Witness(
        exporting(torch.vmap(torch.sum, chunk_size=2), X, **ROWS), r"needs \(x_dim_0//2\) to be"
    ),
    **{
        f"math_functions: numpy.{name}": Witness(
            exporting(lambda x, name=name: x + getattr(np, name)(x.shape[0]), X, **ROWS), "has no callable"
        )
        for name in (*OF_NUMPY, "round")
    },
    **{
        f"math_functions: numpy.{name}": Witness(exporting(program, X, others=[(X[:1],)], **ROWS), "AssumptionError")
        for name, program in OF_LISTS.items()
    },
    **{
        f"math_functions: torch.{kind}.__format__": Witness(
            exporting(lambda x, n=n: x + len(f"{x.shape[0] * n:04}"[:0]), X, **ROWS), "unsupported format string"
        )
        for kind, n in (("SymInt", 1), ("SymFloat", 0.5))
    },
    "math_functions: torch.fx.experimental.sym_node.to_node": Witness(
        exporting(lambda x: x.reshape(x.shape[0] * Kind.FIRST, -1) + 1, X, **ROWS), "unsupported operand"
    ),
    # 4 // 0.1 is 39.0, and the floor of 4 / 0.1 is 40.
    "math_functions: torch.SymInt.__floordiv__": Witness(
        exporting(lambda x: x + x.shape[0] // 0.1, X, **ROWS), "another result", FLOOR
    ),
    "math_functions: torch.SymFloat.__floordiv__": Witness(
        exporting(lambda x: x + x.shape[0] / 4 // 0.1, X, **ROWS), "another result", FLOOR
    ),
    "math_functions: torch.SymFloat.__rfloordiv__": Witness(
        exporting(lambda x: x + 1 // (x.shape[0] / 40), X, **ROWS), "another result", FLOOR
    ),
    **{
        f"math_functions: torch.SymBool.{name}": Witness(
            exporting(program, X, **ROWS), "TypeError|KeyError", f"assumes|^{RIGHT}$"
        )
        for name, program in OF_CONDITIONS.items()
    },
    **{
        f"math_functions: {target}": Witness(exporting(program, X, **ROWS), "another result")
        for target, program in OF_CLASSES.items()
    },
    **{
        f"math_functions: {target}": Witness(exporting(program, X, **ROWS), "is fixed by the program")
        for target, program in OF_SIZES.items()
    },
    "nested_tensors: torch.nested.nested_tensor": Witness(
        exporting(lambda x: torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0.0), X, others=[(SIX,)], **ROWS),
        "there is no lowering",
    ),
    "nested_tensors: torch.nested.as_nested_tensor": Witness(
        exporting(
            lambda x: torch.nested.as_nested_tensor([x, x[:2]]).to_padded_tensor(0.0), X, others=[(SIX,)], **ROWS
        ),
        "there is no lowering",
    ),
    "nested_tensors: torch.nested._internal.nested_tensor.nested_from_padded": Witness(
        exporting(padded_back, X, OFFSETS), "should only be called while FakeTensorMode"
    ),
    "nested_tensors: torch.nested._internal.nested_tensor.nested_view_from_values_offsets": Witness(
        exporting(
            lambda x, offsets: nested_view_from_values_offsets(x, offsets).sin().to_padded_tensor(0.0),
            X,
            OFFSETS,
            others=[(X, OTHER_OFFSETS)],
        ),
        "should only be called while FakeTensorMode",
    ),
    "nested_tensors: torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths": Witness(
        exporting(
            lambda x, offsets: (
                nested_view_from_values_offsets_lengths(x, offsets, torch.tensor([1, 1]))
                .sin()
                .sum(-1)
                .contiguous()
                .values()
            ),
            X,
            OFFSETS,
            others=[(X, OTHER_OFFSETS)],
        ),
        "should only be called while FakeTensorMode",
    ),
    "neural_modules: torch.nn.modules.transformer.TransformerEncoder.forward": Witness(
        exporting(encoder(), *PADDED), "another result"
    ),
    "neural_modules: torch.nn.parallel.data_parallel.DataParallel.forward": Witness(
        exporting(on_two_devices(), X, expected=Scale()), "has no attribute"
    ),
    "neural_modules: torch.nn.parallel.distributed.DistributedDataParallel.forward": Witness(
        exporting(distributed(), X, expected=Scale()), "has no attribute"
    ),
    "neural_modules: torch.nn.functional.scaled_dot_product_attention": Witness(
        exporting(
            lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 1),
            HEADS,
            input_names=["x"],
            dynamic_axes={"x": [2]},
        ),
        "must be bool",
    ),
    "neural_modules: torch.nn.functional.linear_cross_entropy": Witness(
        exporting(
            lambda x: F.linear_cross_entropy(x, x, torch.tensor([0, 1, 2, 3]), options=nn.LinearCrossEntropyOptions()),
            X,
        ),
        "_linear_cross_entropy_batch_chunked",
        needed_on=">=2.13",
    ),
    "quantization: torch.quantize_per_tensor": Witness(
        exporting(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).dequantize(), X), "there is no lowering"
    ),
    "quantization: torch.quantize_per_channel": Witness(
        exporting(
            lambda x: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 1, torch.qint8).dequantize(), X
        ),
        "quantized nyi",
        "one scale for each channel",
    ),
    "quantization: torch.quantize_per_tensor_dynamic": Witness(
        exporting(lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint8, False).dequantize(), X),
        "quantized nyi",
        "from the values",
    ),
    "random_numbers: torch.random.manual_seed": Witness(exporting(random, X), "another result"),
    "random_numbers: torch.random.seed": Witness(seed_of_the_process, "another seed"),
    "random_numbers: torch.random.get_rng_state": Witness(exporting(random_from_a_state, X), "another result"),
    "random_numbers: torch.random.set_rng_state": Witness(exporting(random_from_a_state, X), "another result"),
    "scripts: torch.jit.torch.jit.ScriptFunction.__call__": Witness(
        exporting(lambda x: scripted(x) + 1, X, others=[(100 * Y,)]), "it assumes"
    ),
    "scripts: torch.ScriptMethod.__call__": Witness(
        exporting(lambda x: branching(x) + 1, X, others=[(Y,)]), "it assumes"
    ),
    "scripts: torch.jit._trace.is_tracing": Witness(
        exporting(lambda x: traced_or_scripted(x) + 1, X, others=[(Y,)]), "it assumes"
    ),
    "scripts: torch.jit._trace.script": Witness(
        exporting(lambda x: traced_or_itself(x) + 1, X), "cannot be used as a value"
    ),
    "parameters: torch.nn.parameter.Parameter.__new__": Witness(
        exporting(lambda x: x * torch.nn.Parameter(torch.ones(3)), X), "makes a tensor in a way that cannot be recorded"
    ),
    "tensor_reads: copy.copy": Witness(exporting(lambda x: copy.copy(x + 1), X, others=[(Y,)]), "with set_"),
    "tensor_reads: torch.Tensor.__deepcopy__": Witness(
        exporting(lambda x: copy.deepcopy(x + 1), X, others=[(Y,)]), "Attempted to call copy_"
    ),
    "tensor_reads: torch.Tensor.numpy": Witness(
        exporting(lambda x: x + float(torch.ones(2).numpy().sum()), X), "another result"
    ),
    "tensor_reads: torch.Tensor.tolist": Witness(
        exporting(lambda x: x + sum(torch.ones(2).tolist()), X), "tolist\\(\\) shouldn't be called"
    ),
    "tensor_reads: torch.Tensor.__bool__": Witness(
        exporting(lambda x: x * 2 if x[0, 0] else x * 3, X, others=[(Y,)]), "AssumptionError"
    ),
    "tensor_reads: torch.Tensor.item": Witness(exporting(until_small, X, others=[(50 * Y,)]), "AssumptionError"),
    "tensor_reads: torch.as_tensor": Witness(
        exporting(lambda x: torch.as_tensor(any(row.sum() > 2 for row in x)), X, **ROWS), "another result"
    ),
    "tensor_reads: torch.Tensor.allclose": Witness(exporting(until_close, X, others=[(Y,)]), "AssumptionError"),
    "tensor_reads: torch.Tensor.equal": Witness(exporting(until_equal, X, others=[(Y,)]), "AssumptionError"),
    "tensor_reads: torch.equal": Witness(exporting(until_equal_to_less, X, others=[(Y,)]), "AssumptionError"),
    "tensor_reads: torch.allclose": Witness(exporting(until_close_to_half, X, others=[(Y,)]), "AssumptionError"),
    "tensor_reads: torch.Tensor.is_nonzero": Witness(
        exporting(lambda x: x * 2 if x[0, 0].is_nonzero() else x * 3, X, others=[(Y,)]), "AssumptionError"
    ),
    "tensor_reads: torch.is_nonzero": Witness(
        exporting(lambda x: x * 2 if torch.is_nonzero(x[0, 0]) else x * 3, X, others=[(Y,)]), "AssumptionError"
    ),
    "tensor_reads: torch.Tensor.__repr__": Witness(
        exporting(lambda x: x * len(repr(x)), X), "another result", "CaptureError: the program makes a text"
    ),
    "sparse_tensors: torch.sparse_coo_tensor": Witness(
        exporting(lambda x: torch.sparse_coo_tensor(torch.tensor([[0], [1]]), x[0, :1], (2, 2)).to_dense(), X),
        "makes a sparse tensor",
    ),
    "sparse_tensors: torch.Tensor.to_sparse": Witness(
        exporting(lambda x: x.to_sparse().to_dense() + 1, X), "makes a sparse tensor"
    ),
    "tensor_reads: torch.Tensor.nbytes": Witness(
        exporting(lambda x: x * x.nbytes, X, others=[(SIX,)], **ROWS), "Cannot call numel"
    ),
    **{
        f"tensor_layouts: {name}": Witness(
            exporting(program, X, others=[(TRANSPOSED,)]), "another result", "AssumptionError"
        )
        for name, program in OF_LAYOUTS.items()
    },
    "tensor_layouts: torch.Tensor.to": Witness(
        exporting(written_images, IMAGES, others=[(LAST,)]), "another result", "AssumptionError"
    ),
    **{
        f"tensor_reads: torch.Tensor.{name}": Witness(
            exporting(program, X), "another result", "CaptureError: the program reads"
        )
        for name, program in OF_MEMORY.items()
    },
    "tensor_reads: torch.utils.dlpack.from_dlpack": Witness(
        exporting(lambda x: torch.utils.dlpack.from_dlpack(x + 1), X, others=[(Y,)]), "FrozenValueError", f"^{RIGHT}$"
    ),
    "dynamo: torch._subclasses.fake_tensor.traceback": Witness(number_of_stack_traces, "a stack trace is taken"),
    "dynamo: the logger torch._subclasses.fake_tensor": Witness(failure_in_the_log, "torch logs"),
    "dynamo: torch._compile.getattr": Witness(import_of_dynamo("torch._compile.getattr"), "dynamo is imported"),
    "dynamo: torch._dynamo.eval_frame": Witness(exporting(lambda x: compiled(x) + 1, X), "InternalTorchDynamoError"),
}


#: Patches that no program was found for that torch 2.13 needs them for, with what they are kept for.
WITHOUT_WITNESS: dict[str, str] = {
    "fake_kernels: torch.utils._sympy.symbol": "kinds of symbols, which torch asks for if it has imported sympy before",
    "higher_order: torch._higher_order_ops.associative_scan.associative_scan": "recorded as a scan, not as many nodes",
    "higher_order: torch._higher_order_ops.associative_scan.AssociativeScanOp.__call__": "likewise, in graphs",
    "math_functions: torch.SymInt.__rfloordiv__": "the quotient of a float by a size may be rounded",
    "nested_tensors: torch.nested.nested_tensor_from_jagged": "its checks of the offsets depend on values",
    "nested_tensors: torch.nested.narrow": "it reads the starts and lengths",
    "nested_tensors: torch.nested.masked_select": "it counts the values of a mask",
    "neural_modules: torch.backends.mha.get_fastpath_enabled": "another version has one opaque operator for a layer",
    "neural_modules: torch.nn.modules.rnn.RNNBase.check_forward_args": "it compares a size with a number of sequences",
    "neural_modules: torch.nn.modules.rnn.LSTM.check_forward_args": "likewise",
    "tensor_reads: torch.Tensor.__dlpack__": "without it another library reads memory that is not there",
    "tensor_reads: torch.to_dlpack": "likewise",
    "tensor_reads: torch.utils.dlpack.to_dlpack": "likewise",
    "parameters: torch.Tensor.data": "without it the program's own weights lose their memory, and the process ends",
}


def test_scripts_that_are_compiled_meanwhile_find_builtins_that_are_patched() -> None:
    """TorchScript's compiler finds functions that are written in C by their identity."""
    assert exporting(script_of_math, X, **ROWS)() == RIGHT


def test_every_patch_of_torch_has_a_witness() -> None:
    assert WITNESSES.keys().isdisjoint(WITHOUT_WITNESS)
    libraries = {target for target in patches_by_target() if target.startswith(("torchvision: ", "transformers: "))}
    assert patches_by_target().keys() - libraries == WITNESSES.keys() | WITHOUT_WITNESS.keys()


@pytest.mark.parametrize("target", one_in(3, WITNESSES))
def test_a_patch_is_needed(target: str) -> None:
    patch = patches_by_target().get(target)
    assert patch is not None, f"torch {torch.__version__} has no {target.partition(': ')[2]}"
    check(WITNESSES[target], lambda: without(patch))
