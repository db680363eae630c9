"""Nodes and values say where in the program they come from, under the keys of `torch.onnx.export(dynamo=True)`."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import torch

import onnx_parity


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.layer(x))


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.rand(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x + self.shift


_KEY = "pkg.torch.onnx."


def _network(**options: Any) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(
        Network().eval(), (torch.randn(2, 4),), opset_version=18, input_names=["x"], strip_doc_string=False, **options
    )


def test_nodes_have_their_modules_their_operator_and_their_line() -> None:
    graph = _network().model.graph
    last = [node.metadata_props for node in graph if node.op_type == "Gemm"][-1]
    assert literal_eval(last[f"{_KEY}name_scopes"]) == ["", "blocks.1", "blocks.1.layer", "linear_1"]
    classes = literal_eval(last[f"{_KEY}class_hierarchy"])
    assert classes[1:] == [f"{__name__}.Block", "torch.nn.modules.linear.Linear", "aten.linear.default"]
    assert last["namespace"].split("/")[1] == f"blocks.1: {__name__}.Block"
    assert last[f"{_KEY}fx_node"] == (
        "%linear_1 : call_function[target=torch.ops.aten.linear.default]"
        "(args = (%gelu, %blocks.1.layer.weight, %blocks.1.layer.bias), kwargs = {})"
    )
    assert "test_origins.py" in last[f"{_KEY}stack_trace"]
    # The nodes that one operator became have the same.
    scopes = [node.metadata_props[f"{_KEY}name_scopes"] for node in graph if node.op_type == "Erf"]
    assert scopes == [str(["", "blocks.0", "gelu"]), str(["", "blocks.1", "gelu_1"])]


def test_values_have_their_kind_and_their_name_in_the_program() -> None:
    graph = _network(do_constant_folding=False).model.graph
    of = "pkg.torch.export.graph_signature."
    assert graph.inputs[0].metadata_props[f"{of}InputSpec.kind"] == "USER_INPUT"
    weight = graph.initializers["blocks.0.layer.weight"].metadata_props
    assert (weight[f"{of}InputSpec.kind"], weight[f"{_KEY}original_node_name"]) == (
        "PARAMETER",
        "p_blocks_0_layer_weight",
    )
    shift = graph.initializers["shift"].metadata_props
    assert (shift[f"{of}InputSpec.kind"], shift[f"{of}InputSpec.persistent"]) == ("BUFFER", "False")
    assert graph.outputs[0].metadata_props == {
        f"{of}OutputSpec.kind": "USER_OUTPUT",
        f"{_KEY}original_node_name": "add",
    }


def test_modules_as_functions_keep_it() -> None:
    model = _network(export_modules_as_functions={Block}).model_proto
    (function,) = (each for each in model.functions if each.name == "Block")
    props = {each.key: each.value for each in function.node[0].metadata_props}
    assert literal_eval(props[f"{_KEY}name_scopes"])[-2:] == ["blocks.0.layer", "linear"]
    assert function.node[0].doc_string.startswith("aten.linear.default at ")


def test_nothing_is_written_unless_it_is_asked_for() -> None:
    exported = onnx_parity.export(Network().eval(), (torch.randn(2, 4),))
    assert b"pkg.torch" not in exported.serialize()
    assert not any(node.doc_string for node in exported.model.graph)
