"""From a declaration to a module of flat tensors: names, constants, nesting, state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from onnx_parity.harness.axes import Device, Dtype
from onnx_parity.harness.case import Declaration, floats, ints, model, op
from onnx_parity.harness.cases.program import InputSet, Program, build
from tests.harness.fakes import tensors


def built(declaration: Declaration, dtype: Dtype = Dtype.FLOAT32) -> Program:
    return build(next(declaration.cases("case")), dtype, Device.CPU, 0)


def names(declaration: Declaration) -> tuple[str, ...]:
    return built(declaration).input_names


def test_inputs_are_named_by_their_place_or_their_keyword() -> None:
    assert names(op(F.elu, floats(2))) == ("x",)
    assert names(op(torch.add, floats(2), floats(2))) == ("x0", "x1")
    assert names(op(F.prelu, floats(2, 3), weight=floats(1))) == ("x", "weight")
    assert names(op(lambda pair, y: pair[0] + pair[1] + y, (floats(2), floats(2)), floats(2))) == ("x0", "x1", "x2")
    assert names(op(lambda x, *, pair: x + pair[0] + pair[1], floats(2), pair=(floats(2), floats(2)))) == (
        "x", "pair_0", "pair_1"
    )  # fmt: skip
    assert names(op(torch.zeros, size=(2,))) == ()


def test_a_constant_is_no_input_and_is_the_same_at_every_draw() -> None:
    program = built(op(F.linear, floats(2, 3), weight=floats(4, 3, constant=True)))
    assert program.input_names == ("x",)
    assert program.weight_bytes == 4 * 3 * 4
    (x,) = program.inputs(InputSet())
    assert torch.equal(program.run((x,))[0], program.run((x,))[0])
    assert [name for name, _ in program.module.named_buffers()] == ["weight"]


def test_a_module_with_flat_inputs_is_exported_as_itself() -> None:
    program = built(model(nn.Linear, floats(2, 3), in_features=3, out_features=4))
    assert type(program.module) is nn.Linear
    assert program.weight_bytes == (3 * 4 + 4) * 4


def test_a_module_takes_makers_in_its_call_and_the_rest_in_its_constructor() -> None:
    program = built(op(nn.LSTM, floats(5, 2, 4), (floats(1, 2, 3), floats(1, 2, 3)), input_size=4, hidden_size=3))
    assert program.input_names == ("x0", "x1", "x2")
    assert [tuple(output.shape) for output in program.run(program.inputs(InputSet()))] == [
        (5, 2, 3), (1, 2, 3), (1, 2, 3)
    ]  # fmt: skip
    embedding = built(op(nn.Embedding, input=ints(4, high=6), num_embeddings=6, embedding_dim=2))
    assert embedding.input_names == ("input",)


def test_the_cells_dtype_reaches_inputs_and_weights() -> None:
    program = built(op(nn.Linear, floats(2, 3), in_features=3, out_features=4), Dtype.FLOAT16)
    assert {tensor.dtype for tensor in (*tensors(program.inputs(InputSet())), *program.module.parameters())} == {
        torch.float16
    }


def test_training_leaves_the_statistics_as_they_were() -> None:
    program = built(op(nn.BatchNorm2d, floats(4, 3, 5, 5), num_features=3, train=True))
    assert program.module.training
    before = {name: value.clone() for name, value in program.module.named_buffers()}
    program.run(program.inputs(InputSet()))
    for name, value in program.module.named_buffers():
        assert torch.equal(value, before[name]), name
    assert not built(op(nn.BatchNorm2d, floats(4, 3, 5, 5), num_features=3)).module.training


def test_numbers_that_a_program_returns_are_outputs() -> None:
    outputs = built(op(lambda x: (x, x.shape[0], None), floats(2, 3)))
    assert [tuple(output.shape) for output in outputs.run(outputs.inputs(InputSet()))] == [(2, 3), ()]


def test_the_run_without_gradients_leaves_weights_trainable() -> None:
    program = built(op(nn.Linear, floats(2, 3), in_features=3, out_features=4))
    (output,) = program.run(program.inputs(InputSet()))
    assert not output.requires_grad
    assert all(parameter.requires_grad for parameter in program.module.parameters())


def test_inputs_lie_in_memory_as_they_were_given() -> None:
    program = built(op(lambda x: x.as_strided((2,), (1,), 2), floats(3)))
    every_other = torch.arange(6.0)[::2]
    (picked,) = program.run((every_other,))
    assert picked[0].item() == 2
    assert torch.equal(every_other, torch.tensor([0.0, 2.0, 4.0]))
