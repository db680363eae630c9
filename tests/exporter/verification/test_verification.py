"""`verify=True` raises for wrong values, dtypes, shapes, counts, NaN, other sizes, and invalid models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.testing import assert_onnx_program
from onnx_parity.exporter.verification import VerificationInfo, verify_onnx_program
from onnx_parity.exporter.verification.float64 import in_dtype
from onnx_parity.exporter.verification.program_outputs import ProgramOutputs
from onnx_parity.exporter.verification.trials import Trial
from tests.exporter.subjects import Classifier, Counter, images
from tests.thinned import one_in

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def wrong(write: Any) -> dict[Any, Any]:
    """A table in which relu is written wrongly."""
    return {"aten::relu": write}


def with_nan(g: Any, x: Any) -> Any:
    return g.op("Sqrt", x)


def nearly(g: Any, x: Any) -> Any:
    return g.op("Mul", g.op("Relu", x), 1.0001)


def transposed(g: Any, x: Any) -> Any:
    # ONNX cannot infer its size, by which the lowering would be refused.
    return g.op("Compress", g.op("Relu", x), g.const([True, False, False]), axis_i=0)


def example_only(g: Any, x: Any) -> Any:
    return g.op("Mul", g.op("Relu", x), g.op("Cast", g.op("Greater", g.const(X + 0.01), x), to_i=1))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            nearly,
            r"the outputs of the model differ from those of the program for the example inputs: output 0 at \(.*\): "
            r"runtime .*, torch .*; error .*, tolerance .*, headroom .*; 6 of 12 elements. The outputs are output",
        ),
        (with_nan, r"output 0 at \(0, 0\): runtime nan, torch 0.0; NaN and infinities differ"),
        (transposed, r"(not valid ONNX|has shape \(1, 4\) from the runtime, \(3, 4\) from torch)"),
        (example_only, r"for the example's numbers in reverse, and smaller: output 0 at"),
    ],
    ids=["values", "nan", "broadcastable shape", "built in"],
)
def test_wrong_models_are_reported(write: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(onnx_parity.VerificationError, match=message):
        onnx_parity.export(torch.relu, X, path, custom_translation_table=wrong(write), verify=True)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "program",
    [lambda x, b: x * float(x.numpy().max()), lambda x, b: x - x.numpy().sum(), lambda x, b: x if b else -x],
    ids=["greatest", "sum", "flag"],
)
def test_what_the_order_of_numbers_does_not_show_is_seen(program: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.VerificationError, match="for the example's numbers in reverse, and smaller"):
        onnx_parity.export(program, (X, torch.tensor(True)), verify=True, allow_ignored_inputs=True)


def test_right_models_pass(tmp_path: Path) -> None:
    model = Classifier().eval()
    for opset in (9, 18):
        onnx_parity.export(model, images(), tmp_path / "model.onnx", opset_version=opset, verify=True)
    onnx_parity.export(
        model, images(), input_names=["x"], dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}}, verify=True
    )


def test_opsets_that_onnxruntime_does_not_run() -> None:
    onnx_parity.export(torch.relu, X, opset_version=28, verify=True)
    with pytest.raises(onnx_parity.VerificationError, match="output 0 at"):
        onnx_parity.export(torch.relu, X, opset_version=28, verify=True, custom_translation_table=wrong(nearly))


def test_fewer_outputs_are_reported() -> None:
    program = onnx_parity.export(lambda x: (x + 1, x + 2), X)
    program.model.graph.outputs.pop()
    with pytest.raises(onnx_parity.VerificationError, match="1 output from the runtime, 2 outputs from torch"):
        program.verify()


def test_other_dtypes_are_reported() -> None:
    program = onnx_parity.export(torch.relu, X)
    node = program.model.graph[0]
    cast = ir.node("Cast", [node.outputs[0]], {"to": 11})
    cast.outputs[0].name, cast.outputs[0].type = "wide", ir.TensorType(ir.DataType.DOUBLE)
    cast.outputs[0].shape = ir.Shape([3, 4])
    program.model.graph.append(cast)
    program.model.graph.outputs[0] = cast.outputs[0]
    with pytest.raises(onnx_parity.VerificationError, match="is float64 from the runtime, float32 from torch"):
        program.verify()


def test_a_size_that_became_a_constant_is_reported() -> None:
    def frozen(g: Any, x: Any) -> Any:
        return g.op("Expand", g.op("Slice", x, g.const([0]), g.const([1]), g.const([0])), g.const([3, 4]))

    ones = torch.ones(3, 4)
    with pytest.raises(onnx_parity.VerificationError, match=r"for x_dim_0=5, .*has shape \(3, 4\)"):
        onnx_parity.export(
            torch.relu,
            ones,
            input_names=["x"],
            dynamic_axes={"x": [0]},
            custom_translation_table=wrong(frozen),
            verify=True,
        )


def test_sizes_that_the_program_itself_refuses() -> None:
    class Even(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not onnx_parity.is_in_onnx_export() and x.shape[0] != 3:
                raise ValueError(f"{x.shape[0]} rows")
            return x + 1

    with pytest.raises(onnx_parity.VerificationError) as caught:
        onnx_parity.export(Even(), X, input_names=["x"], dynamic_axes={"x": {0: "rows"}}, verify=True)
    assert str(caught.value) == (
        "the export asked for dynamic axes, but the program itself fails in torch at every other size of them:\n"
        "  - rows=5: ValueError: 5 rows\n  - rows=4: ValueError: 4 rows\n  - rows=6: ValueError: 6 rows\n"
        "  - rows=1: ValueError: 1 rows\n  - rows=2: ValueError: 2 rows\n  - rows=0: ValueError: 0 rows\n"
        "Export with these axes static, or write the program for any size."
    )


def test_sizes_stay_within_what_was_promised() -> None:
    rows = torch.export.Dim("rows", min=2, max=4)
    seen = []

    class Small(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not onnx_parity.is_in_onnx_export():
                seen.append(x.shape[0])
            return x + 1

    onnx_parity.export(Small(), X, dynamic_shapes={"x": {0: rows}}, verify=True)
    assert set(seen) == {2, 3, 4}


def test_programs_that_fail_by_themselves() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if not onnx_parity.is_in_onnx_export():
            raise KeyError("weights")
        return x + 1

    with pytest.raises(onnx_parity.VerificationError) as caught:
        onnx_parity.export(program, X, verify=True)
    assert str(caught.value) == "the program fails in torch for the example inputs: 'weights'"


def test_programs_that_fail_only_for_inputs_that_are_moved_by_rounding() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        above = torch.nonzero(x > 1)
        return torch.arange(4.0)[torch.ones(4 + above.shape[0], dtype=torch.bool)] * x

    exported = onnx_parity.export(program, (torch.ones(4),), verify=True)
    assert torch.equal(exported(torch.ones(4)), torch.arange(4.0))


def test_only_the_shapes_of_random_results_are_compared() -> None:
    model = nn.Sequential(nn.Dropout(0.5))
    before = torch.random.get_rng_state()
    onnx_parity.export(model, X, training=True, opset_version=13, verify=True)
    assert torch.equal(torch.random.get_rng_state(), before)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(3), x.relu()

    with pytest.raises(onnx_parity.VerificationError, match="output 1 at"):
        onnx_parity.export(both, X, verify=True, custom_translation_table=wrong(nearly))


@pytest.mark.filterwarnings("ignore::onnx_parity.DroppedWriteWarning")
def test_the_program_is_left_as_it_was() -> None:
    counter = Counter()
    onnx_parity.export(counter, X, verify=True)
    assert counter.count == 0
    x = X.clone()

    def writes(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)

    onnx_parity.export(writes, x, verify=True)
    assert torch.equal(x, X)


def test_models_that_are_not_valid() -> None:
    program = onnx_parity.export(torch.relu, X)
    program.model.graph.outputs[0].shape = ir.Shape([5, 5])
    with pytest.raises(onnx_parity.VerificationError, match="the model is not valid ONNX: "):
        program.verify()
    unknown = onnx_parity.export(torch.relu, X, custom_translation_table=wrong(lambda g, x: g.op("mine::Relu", x)))
    with pytest.raises(onnx_parity.VerificationError, match="onnxruntime cannot load the model: "):
        unknown.verify()


def test_numbers_are_outputs() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x + 1, 3 if onnx_parity.is_in_onnx_export() else 4

    with pytest.raises(onnx_parity.VerificationError) as caught:
        onnx_parity.export(program, X, verify=True)
    assert "for the example inputs: output 1 at (): runtime 3, torch 4" in str(caught.value)


def test_strings_that_are_built_in() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        return x + 1, "three" if onnx_parity.is_in_onnx_export() else "four"

    with pytest.raises(onnx_parity.VerificationError) as caught:
        onnx_parity.export(program, X, verify=True)
    assert str(caught.value) == (
        "for the example inputs the program returns 'four', but when it was exported it returned 'three', which is a "
        "constant of the model: return it as a tensor"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    onnx_parity.export(nn.Linear(4, 3).to(dtype), X.to(dtype), verify=True)


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_assert_onnx_program(backend: Any) -> None:
    program = onnx_parity.export(Classifier().eval(), images())
    assert_onnx_program(program, backend=backend)
    assert_onnx_program(program, args=(images() * 2,), backend=backend)
    assert_onnx_program(program, rtol=1e-3, atol=1e-4, backend=backend)
    wrong_one = onnx_parity.export(torch.relu, X, custom_translation_table=wrong(nearly))
    with pytest.raises(
        AssertionError, match="the outputs of the model differ from those of the program in torch: output 0"
    ):
        assert_onnx_program(wrong_one, backend=backend)
    assert_onnx_program(wrong_one, rtol=1e-3, backend=backend)
    with pytest.raises(AssertionError, match="output 0 of the model differs from the program's: Tensor-likes"):
        assert_onnx_program(wrong_one, rtol=1e-5, backend=backend)


def test_assert_onnx_program_counts_outputs_and_knows_its_backends() -> None:
    program = onnx_parity.export(lambda x: (x, x + 1), X)
    with pytest.raises(onnx_parity.ArgumentError, match="backend is 'tvm': give 'onnxruntime' or 'reference'"):
        assert_onnx_program(program, backend="tvm")  # type: ignore[arg-type]
    with pytest.raises(onnx_parity.ArgumentError, match="rtol is -1: give a number that is not negative, or None"):
        assert_onnx_program(program, rtol=-1)
    with pytest.raises(onnx_parity.ArgumentError, match=r"program is 3: give what onnx_parity\.export returns"):
        assert_onnx_program(3)  # type: ignore[arg-type]
    with pytest.raises(onnx_parity.ArgumentError, match="x is a tensor in the model, but 3 was given: give a tensor"):
        verify_onnx_program(program, args=3)  # type: ignore[arg-type]
    program.model.graph.outputs.pop()
    with pytest.raises(onnx_parity.VerificationError, match="the model returns 1 tensors, and the program returns 2"):
        assert_onnx_program(program, rtol=1e-3)


def test_figures_of_each_output() -> None:
    program = onnx_parity.export(lambda x: (x.relu(), x > 0), X, custom_translation_table=wrong(nearly))
    floats, booleans = verify_onnx_program(program)
    assert (floats.name, floats.expected_dtype) == ("output_0", torch.float32)
    assert 1e-4 < floats.max_abs_diff < 3e-4 and floats.asdict()["abs_diff_hist"][0][3:5] != [0, 0]
    assert booleans.max_abs_diff == 0
    far = VerificationInfo.from_tensors("x", torch.ones(3), torch.ones(1, 3))
    assert far.max_abs_diff == float("inf")
    nan = VerificationInfo.from_tensors("x", torch.tensor([1.0, torch.nan]), torch.tensor([torch.nan, torch.nan]))
    assert nan.max_abs_diff == float("inf")


def test_scripted_programs() -> None:
    onnx_parity.export(torch.jit.script(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).eval()), X, verify=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_copies_of_traced_modules_are_made_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    onnx_parity.export(torch.jit.trace(nn.Linear(4, 4), torch.randn(3, 4)), torch.randn(3, 4), verify=True)
    assert not [str(warning.message) for warning in recwarn if issubclass(warning.category, UserWarning)]


def test_models_that_fail_when_they_run() -> None:
    def bad_index(g: Any, x: Any) -> Any:
        return g.op("Gather", g.op("Reshape", x, g.const([-1])), g.op("Cast", g.op("Mul", x, 100.0), to_i=7))

    with pytest.raises(onnx_parity.VerificationError, match="the model fails for the example inputs: "):
        onnx_parity.export(torch.relu, X, custom_translation_table=wrong(bad_index), verify=True)


def test_results_whose_number_depends_on_values() -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        return [x + 1] * (1 if onnx_parity.is_in_onnx_export() else 2)

    with pytest.raises(onnx_parity.VerificationError) as caught:
        onnx_parity.export(program, X, verify=True)
    assert str(caught.value) == (
        "for the example inputs the program returns 2 values, but it returned 1 when it was exported: the number of "
        "results must not depend on the inputs"
    )


def test_models_that_protobuf_cannot_hold_are_verified_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx_parity.exporter.files import write

    model = nn.Linear(64, 64)
    x = torch.linspace(-1, 1, 128).reshape(2, 64)
    program = onnx_parity.export(model, x)
    monkeypatch.setattr(write, "INLINE_LIMIT", 2**20 + 1000)
    program.verify()
    path = program.runtime_session().path
    assert path is not None and Path(path).with_name("model.onnx.data").is_file()
    program.release()
    assert not Path(path).exists()


def test_large_models_that_call_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime_extensions")
    from onnx_parity.exporter.files import write

    monkeypatch.setattr(write, "INLINE_LIMIT", 2**20 + 1000)
    model = nn.Linear(64, 64)
    x = torch.linspace(-1, 1, 128).reshape(2, 64)
    program = onnx_parity.export(model, x, aten=True)
    torch.testing.assert_close(program(x), model(x).detach())


def test_control_flow_is_compared_with_float64_and_runs_afterwards() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: x - 1, (x,))
            return result

    torch.manual_seed(0)  # In one draw of sixteen the rectifier lets nothing through.
    model = Branching()
    expected = model(X + 3)
    with in_dtype(torch.float64), torch.no_grad():
        twin = model((X + 3).double())
    assert twin.dtype is torch.float64
    torch.testing.assert_close(twin.float(), expected)
    single = X.clone()
    with in_dtype(torch.float64), pytest.raises(TypeError, match="writes to a tensor that is not "):
        single.add_(1)
    onnx_parity.export(model, X + 3, verify=True)
    with pytest.raises(onnx_parity.VerificationError, match="output 0 at"):
        onnx_parity.export(model, X + 3, verify=True, custom_translation_table=wrong(nearly))
    assert torch.equal(model(X + 3), expected)


@torch.jit.script
def parts(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    out: list[torch.Tensor] = []
    for i in range(int(n)):
        out.append(x.relu() + i)
    return out


def test_lists_of_unknown_length() -> None:
    program = onnx_parity.export(parts, (X, torch.tensor(3)), verify=True)
    assert_onnx_program(program, args=(X, torch.tensor(2)))
    figures = verify_onnx_program(program, args=(X, torch.tensor(2)))
    assert [each.name for each in figures] == ["output[0]", "output[1]"]
    with pytest.raises(onnx_parity.VerificationError, match="output 0 at"):
        onnx_parity.export(parts, (X, torch.tensor(3)), verify=True, custom_translation_table=wrong(nearly))


def buckets(x: torch.Tensor, boundaries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.bucketize(x, boundaries), torch.searchsorted(boundaries, x, right=True)


@pytest.mark.parametrize("axes", [None, {"x": {0: "rows"}, "boundaries": {0: "count"}}])
def test_sorted_sequences_stay_sorted(axes: dict[str, dict[int, str]] | None) -> None:
    args = (torch.tensor([[0.5, -2.0, 3.0], [0.0, 1.5, -0.5]]), torch.tensor([-1.0, 0.0, 1.0, 2.0]))
    onnx_parity.export(buckets, args, dynamic_axes=axes, verify=True)

    def built_in(g: Any, self: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
        return g.op("Constant", value_t=torch.bucketize(*args))

    with pytest.raises(onnx_parity.VerificationError, match="the example's numbers in reverse"):
        onnx_parity.export(
            torch.bucketize,
            args,
            verify=True,
            custom_translation_table={"aten::bucketize": built_in},
        )


@pytest.mark.parametrize(
    ("module", "x"), [(nn.Conv2d(3, 4, 3), images()), (nn.LSTM(3, 4, 2, bidirectional=True), torch.randn(5, 2, 3))]
)
def test_modules_that_look_at_dtypes_first_are_judged_from_float64(module: nn.Module, x: torch.Tensor) -> None:
    weights = dict(module.named_parameters())
    program = onnx_parity.export(module, (x,))
    expected = ProgramOutputs(program.source, program.returned, nodes=1).expected(Trial("the example inputs", (x,), {}))
    assert all(own is weights[name] and own.dtype is torch.float32 for name, own in module.named_parameters())
    outputs = torch.utils._pytree.tree_leaves(copy.deepcopy(module).double()(x.double()))
    for each, output in zip(expected, outputs, strict=True):
        assert each.centre is not None
        assert np.abs(each.centre - output.detach().numpy()).max() < 1e-14


@pytest.mark.parametrize("axes", [None, {"input": {0: "batch"}}])
def test_values_inside_that_both_have(axes: dict[str, dict[int, str]] | None) -> None:
    model = Classifier().eval()
    program = onnx_parity.export(model, images(), dynamic_axes=axes)
    figures = verify_onnx_program(program, args=(images(3) if axes else images(),), compare_intermediates=True)
    # A batch norm that was folded into a convolution is what that ends with.
    assert [each.name for each in figures] == ["BatchNormalization", "Relu", "Conv_1", "Add", "ReduceMean", "output"]
    assert all(each.max_abs_diff < 1e-5 for each in figures)


def test_values_inside_need_tensors() -> None:
    @torch.jit.script
    def total(xs: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(xs).sum(0)

    program = onnx_parity.export(total, ([X, X],), dynamic_axes={"xs": onnx_parity.ListOf()})
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        verify_onnx_program(program, compare_intermediates=True)
    assert str(caught.value) == (
        "compare_intermediates=True works only if every input is a tensor, but some are lists or None: call "
        "verify_onnx_program without it"
    )


def test_the_first_value_that_is_wrong_is_found() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, ((x * 2).relu().exp(),)) * 2

    table = {"aten::relu": lambda g, x: g.op("LeakyRelu", x, alpha_f=0.1)}
    exported = onnx_parity.export(program, X, custom_translation_table=table)
    figures = verify_onnx_program(exported, compare_intermediates=True)
    wrong = [each.name for each in figures if each.max_abs_diff > 1e-4]
    assert wrong == ["LeakyRelu", "Exp", "output"]
    assert "Mul" in [each.name for each in figures]


@pytest.mark.filterwarnings("ignore::onnx_parity.TracerWarning")
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x > 2 if x.sum() < 0 else x,
        lambda x: x > 2 if x.max() > 5 else x,
        lambda x: x > 2 if x[0].item() < -1 else x,
    ],
)
def test_other_values_reach_decisions_by_floats(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(onnx_parity.VerificationError, match="for other values in an input that the program decides by"):
        onnx_parity.export(program, (torch.tensor([2.0, 1.0, 0.5]),), verify=True)


@pytest.mark.parametrize("seed", one_in(3, [0, 12, 24]))
def test_one_score_may_be_right_in_torch_by_chance(seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(64, 4, batch_first=True, dropout=0)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    scored = nn.Sequential(encoder, nn.Flatten(), nn.Linear(640, 1)).eval()
    program = onnx_parity.export(scored, (torch.randn(1, 10, 64),), verify=True)
    assert_onnx_program(program)
    with torch.no_grad():
        scored.get_parameter("2.bias").add_(1e-5)
    with pytest.raises(onnx_parity.VerificationError, match="output 0 at"):
        assert_onnx_program(program)
