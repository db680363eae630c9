"""Graphs, molecules, and networks whose results turn as their inputs do."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, given, ints
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import Calling, library, made, named

_GRAPH: Any = {
    "inputs": {"x": floats(6, 8), "edge_index": ints(2, 14, high=6)},
    "sizes": {"nodes": (7, 11), "edges": (5, 19)},
    "dynamic": {"x": {0: "nodes"}, "edge_index": {1: "edges"}},
}


def _network(name: str, *args: Any, **keywords: Any) -> Built:
    return Built(made(f"torch_geometric.nn:{name}", *args, **keywords), **_GRAPH)


torch_geometric = library(
    "torch_geometric",
    {
        "gcn": lambda: _network("GCN", 8, 16, 2, 4),
        "gat": lambda: _network("GAT", 8, 16, 2, 4, heads=2, v2=True),
        "sage": lambda: _network("GraphSAGE", 8, 16, 2, 4, aggr="max"),
        "gin": lambda: _network("GIN", 8, 16, 2, 4),
        "edge_cnn": lambda: _network("EdgeCNN", 8, 16, 2, 4),
        "jumping": lambda: _network("GCN", 8, 16, 3, 4, jk="lstm"),
        "transformer": lambda: _network("TransformerConv", 8, 4, heads=2, beta=True),
        "cheb": lambda: _network("ChebConv", 8, 4, K=3),
        "arma": lambda: _network("ARMAConv", 8, 4, num_stacks=2),
        "tag": lambda: _network("TAGConv", 8, 4),
        "graph_unet": lambda: _network("GraphUNet", 8, 16, 4, 2),
        "top_k": lambda: _network("TopKPooling", 8, ratio=0.5),
        "pooled": lambda: Built(
            Calling(
                lambda net, x, e, batch: named("torch_geometric.nn:global_mean_pool")(net(x, e), batch, 2),
                made("torch_geometric.nn:GCN", 8, 16, 2, 4),
            ),
            {**_GRAPH["inputs"], "batch": ints(6, high=2)},
            _GRAPH["sizes"],
            dynamic={**_GRAPH["dynamic"], "batch": {0: "nodes"}},
        ),
        "set2set": lambda: Built(
            made("torch_geometric.nn.aggr:Set2Set", 8, 2),
            {"x": floats(6, 8), "index": given([0, 0, 0, 1, 1, 1])},
            {},
            dynamic={},
        ),
        "schnet": lambda: Built(
            Calling(
                lambda net, z, p, e: net.interactions[0](net.embedding(z), e, _distances(p, e), _gaussians(net, p, e)),
                made(
                    "torch_geometric.nn:SchNet", hidden_channels=16, num_filters=16, num_interactions=1, num_gaussians=8
                ),
            ),
            {"z": ints(6, low=1, high=9), "positions": floats(6, 3), "edge_index": ints(2, 14, high=6)},
            {"nodes": (7, 11), "edges": (5, 19)},
            dynamic={"z": {0: "nodes"}, "positions": {0: "nodes"}, "edge_index": {1: "edges"}},
        ),
    },
)


def _distances(positions: Any, edges: Any) -> Any:
    return (positions[edges[0]] - positions[edges[1]]).norm(dim=-1)


def _gaussians(net: Any, positions: Any, edges: Any) -> Any:
    return net.distance_expansion(_distances(positions, edges))


_ROWS: Any = {"sizes": {"batch": (1, 7)}}

e3nn = library(
    "e3nn",
    {
        "linear": lambda: Built(made("e3nn.o3:Linear", "4x0e+2x1o", "3x0e+2x1o"), {"x": floats(3, 10)}, **_ROWS),
        "norm": lambda: Built(made("e3nn.o3:Norm", "4x0e+2x1o"), {"x": floats(3, 10)}, **_ROWS),
        "spherical_harmonics": lambda: Built(
            made("e3nn.o3:SphericalHarmonics", [0, 1, 2, 3], normalize=True), {"x": floats(3, 3)}, **_ROWS
        ),
        "tensor_product": lambda: Built(
            made("e3nn.o3:FullyConnectedTensorProduct", "4x0e+2x1o", "1x0e+1x1o", "3x0e+2x1o"),
            {"x": floats(3, 10), "y": floats(3, 4)},
            **_ROWS,
            dynamic={"x": {0: "batch"}, "y": {0: "batch"}},
        ),
        "gate": lambda: Built(
            made("e3nn.nn:Gate", "4x0e", [named("torch:tanh")], "2x0e", [named("torch:sigmoid")], "2x1o"),
            {"x": floats(3, 12)},
            **_ROWS,
        ),
    },
)


torchani = library(
    "torchani",
    {
        "aev": lambda: Built(
            Calling(
                lambda aev, coordinates: aev(_species().repeat(coordinates.shape[0], 1), coordinates),
                named("torchani.aev:AEVComputer").like_2x(num_species=4),
            ),
            {"x": floats(2, 5, 3)},
            {"batch": (1, 3)},
        ),
    },
)


def _species() -> Any:
    return made("torch:tensor", [[0, 1, 1, 2, 3]])
