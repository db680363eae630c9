"""Operators of torch that cannot be exported: the message, with the line and the first opset that can express it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.model_zoo.torchvision_import import torchvision

X = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
ROWS = torch.ones(2, 3)
MASK = torch.tensor([True, False])
BOXES = (torch.ones(4, 4), torch.ones(4))

DYNAMIC = {"x": {2: "h"}}


@torch.jit.script
def collected(x: torch.Tensor) -> list[torch.Tensor]:
    rows: list[torch.Tensor] = []
    while bool(x.sum() > len(rows)):
        rows.append(x + 1)
    return rows


def into_another_size(x: torch.Tensor) -> torch.Tensor:
    whole = torch.zeros(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.mul(x, 2, out=whole[2:])
    return whole


def case(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    message: str,
    opset: int = 18,
    dynamic: dict[str, dict[int, str]] | None = None,
) -> Any:
    return pytest.param(program, args, opset, dynamic or {}, message, id=message)


OF_DYNAMIC_SIZES = [
    case(
        lambda x, y: F.scaled_dot_product_attention(y, x, x, enable_gqa=True),
        (torch.ones(1, 4, 4, 4), torch.ones(1, 8, 4, 4)),
        "aten::scaled_dot_product_attention: enable_gqa=True with a dynamic number of heads is not supported: remove "
        "that axis from dynamic_axes",
        dynamic={"x": {1: "heads"}, "y": {1: "more"}},
    ),
    case(
        lambda x: x.topk(x.shape[2] // 2, 3)[0],
        (X,),
        "aten::topk: k is a dynamic size, and ONNX's TopK takes only a constant at this opset (possible from opset 10)",
        opset=9,
        dynamic=DYNAMIC,
    ),
    case(
        lambda x: F.pad(x, (x.shape[2], 0)),
        (X,),
        "aten::constant_pad_nd: ONNX's Pad in mode 'constant' does not take dynamic amounts at this opset "
        "(possible from opset 11)",
        opset=10,
        dynamic=DYNAMIC,
    ),
    case(
        lambda x: torch.arange(x.shape[2]),
        (X,),
        "aten::arange: counting along a dynamic axis needs ONNX's NonZero (possible from opset 9)",
        opset=8,
        dynamic=DYNAMIC,
    ),
    case(
        lambda x: x * vars(torch)["_sym_atan"](x.shape[2] * 0.5),
        (X,),
        "aten::mul.Tensor: the number math.atan(h * 0.5) cannot be written in ONNX: math.atan of real numbers is not "
        "supported",
        dynamic=DYNAMIC,
    ),
    case(
        lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False),
        (X.double(),),
        "aten::avg_pool2d: an average pooling of torch.float64 over a dynamic axis is not supported, because "
        "onnxruntime pools torch.float32 only: cast to torch.float32 before it",
        dynamic=DYNAMIC,
    ),
    case(
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        (X,),
        "aten::max_pool2d_with_indices: the indices of a max_pool of torch.float32 over a dynamic axis cannot be "
        "written without ONNX's MaxPool: remove that axis from dynamic_axes (possible from opset 8)",
        opset=7,
        dynamic=DYNAMIC,
    ),
]

OF_DTYPES = [
    case(
        lambda x: torch.ops.aten._weight_int4pack_mm_for_cpu(
            (x.sum() * x.new_ones(2, 64)).bfloat16(),
            (x.sum() * x.new_ones(32, 32)).to(torch.uint8),
            32,
            x.new_ones(2, 32, 2).bfloat16(),
        ).float(),
        (X,),
        "aten::_weight_int4pack_mm_for_cpu: it packs integers of 4 bits in an order that depends on the processor, and "
        "they are not known at export: give the program plain integers and their scales, as quantized_decomposed's "
        "dequantize operators take them",
        opset=21,
    ),
    case(
        lambda x: torch.ops.aten._dyn_quant_matmul_4bit(x.new_ones(2, 64), torch.zeros(9), 64, 64, 32) * x.sum(),
        (X,),
        "aten::_dyn_quant_matmul_4bit: its weights are packed for a kind of processor other than x86: give the program "
        "plain integers and their scales, as quantized_decomposed's dequantize operators take them",
    ),
    case(
        lambda x: torch.complex(x, x).mT.as_strided((2, 2), (1, 2)),
        (X,),
        "aten::as_strided of complex numbers: the order of its elements in memory is not known: call contiguous() "
        "before it, or use slices or unfold",
    ),
    case(
        torch.fmod,
        (X.double(), X.double()),
        "aten::fmod.Tensor: the remainder of torch.float64 needs ONNX's Mod (possible from opset 10)",
        opset=9,
    ),
    case(
        lambda x: x.view(torch.int64),
        (X.double(),),
        "aten::view.dtype: the bits of torch.float64 as torch.int64 need ONNX's BitCast (possible from opset 26)",
    ),
    case(
        torch.relu,
        (X.bfloat16(),),
        "aten::relu: ONNX's Cast does not take torch.bfloat16 at opset 11 (possible from opset 13)",
        opset=11,
    ),
]

OF_OPERATORS = [
    case(
        into_another_size,
        (ROWS,),
        "aten::slice_scatter: out= has size 1 along axis 0 and the result has size 2: give it the result's size",
    ),
    case(
        lambda weight, bags: torch.embedding_bag(weight, bags, torch.tensor([0, 2]))[1],
        (ROWS, torch.tensor([0, 1, 0])),
        "aten::_embedding_bag_forward_only: the program uses an output of embedding_bag beside the first, and only the "
        "first can be exported: call F.embedding_bag, which returns that alone",
    ),
    case(
        lambda x, mask, place: x.index_put((mask, place), torch.zeros(())),
        (ROWS, MASK, torch.tensor([0])),
        "aten::index_put: an assignment to a data-dependent number of elements needs ONNX's ScatterND "
        "(possible from opset 11)",
        opset=10,
    ),
    case(
        collected,
        (ROWS.bfloat16(),),
        "prim::tolist: ONNX has no sequences and optionals of torch.bfloat16: cast the tensors in them to "
        "torch.float32",
    ),
    case(
        lambda x: x.median(1)[0],
        (torch.zeros(2, 0),),
        "aten::median.dim: the median of an empty axis has no index; export with a non-empty axis",
    ),
    case(
        lambda boxes, scores: torchvision.ops.nms(boxes, scores, 0.5),
        BOXES,
        "torchvision::nms: ONNX has NonMaxSuppression only from opset 10 (possible from opset 10)",
        opset=9,
    ),
    case(
        lambda x, boxes: torchvision.ops.roi_align(x, [boxes, boxes], 2),
        (X, BOXES[0]),
        "torchvision::roi_align: ONNX has RoiAlign only from opset 10 (possible from opset 10)",
        opset=9,
    ),
    case(
        lambda x, boxes: torchvision.ops.roi_align(x, [boxes, boxes], 2, aligned=True),
        (X, BOXES[0]),
        "torchvision::roi_align: aligned=True needs half-pixel coordinates, which ONNX's RoiAlign does not have at "
        "this opset (possible from opset 16)",
        opset=15,
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("program", "args", "opset", "dynamic", "message"), [*OF_DYNAMIC_SIZES, *OF_DTYPES, *OF_OPERATORS]
)
def test_operators_that_cannot_be_exported_are_refused(
    program: Callable[..., Any], args: tuple[Any, ...], opset: int, dynamic: dict[str, dict[int, str]], message: str
) -> None:
    with pytest.raises(onnx_parity.UnsupportedOperatorsError) as caught:
        onnx_parity.export(program, args, opset_version=opset, dynamic_axes=dynamic)
    words, _, place = str(caught.value.refusals[0]).partition("\n      at ")
    assert words == message
    assert str(caught.value).startswith(f"1 operator cannot be exported to opset {opset}:\n  - {words}\n")
    assert place.rpartition(":")[0].endswith(".py")


def test_a_size_that_is_rounded() -> None:
    exported = onnx_parity.export(lambda x: torch.zeros(round(x.shape[2] * 0.5)), (X,), dynamic_axes=DYNAMIC)
    assert [exported(X[:, :, :size]).shape[0] for size in (8, 7, 5, 3)] == [4, 4, 2, 2]


@torch.library.custom_op("parity_tests::only_of_static_sizes", mutates_args=())
def only_of_static_sizes(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@only_of_static_sizes.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    if any(isinstance(size, torch.SymInt) for size in x.shape):
        raise RuntimeError("SymIntArrayRef expected to contain only concrete integers")
    return torch.empty_like(x)


def test_dynamic_sizes_are_not_blamed_for_an_operator_without_a_lowering() -> None:
    message = (
        r"^parity_tests::only_of_static_sizes cannot be exported at .*test_refused_operators\.py:\d+: "
        r"there is no lowering for it\n"
        r"Register a lowering with @onnx_parity\.lowering\('parity_tests::only_of_static_sizes'\), or write that line "
        r"with other operators\.$"
    )
    with pytest.raises(onnx_parity.CaptureError, match=message):
        onnx_parity.export(only_of_static_sizes, (ROWS,), dynamic_shapes=({0: "rows"},))
