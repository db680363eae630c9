"""Ensembles of trees of ai.onnx.ml."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_parity.harness.onnx_node import ML, Array, TensorOf, call, definition, drawn, node
from onnx_parity.op_cases.onnx.ml import after

_COMPARED = {"BRANCH_LEQ": operator.le, "BRANCH_LT": operator.lt, "BRANCH_GTE": operator.ge, "BRANCH_GT": operator.gt,
             "BRANCH_EQ": operator.eq, "BRANCH_NEQ": operator.ne}  # fmt: skip
_AGGREGATED = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _numbers(given: Any, otherwise: Any = None) -> Array:
    """Of an attribute, be it a list or a tensor."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given).astype(np.float64)
    return np.asarray(otherwise if given is None else given)


def _aggregate(votes: Sequence[tuple[int, float]], targets: int, function: str, trees: int) -> list[float]:
    """Of each target, the votes of all trees."""
    made = []
    for target in range(targets):
        own = [weight for each, weight in votes if each == target]
        total = sum(own)
        made.append({"SUM": total, "AVERAGE": total / trees, "MIN": min(own, default=0.0),
                     "MAX": max(own, default=0.0)}[function])  # fmt: skip
    return made


# --- TreeEnsembleRegressor and TreeEnsembleClassifier -----------------------------------------------------------------


def _leaves(row: Array, tree: dict[str, Any]) -> list[tuple[int, int]]:
    """The leaf of each tree that a row comes to, by the numbers of the tree and the node."""
    places = {key: place for place, key in
              enumerate(zip(tree["nodes_treeids"], tree["nodes_nodeids"], strict=True))}  # fmt: skip
    splits = _numbers(tree.get("nodes_values_as_tensor"), tree.get("nodes_values"))
    missing = tree.get("nodes_missing_value_tracks_true") or [0] * len(places)
    found = []
    for number in dict.fromkeys(tree["nodes_treeids"]):
        at = (number, 0)
        while (mode := tree["nodes_modes"][place := places[at]]) != "LEAF":
            value = row[tree["nodes_featureids"][place]]
            holds = missing[place] if np.isnan(value) else _COMPARED[mode](value, splits[place])
            at = (number, tree["nodes_truenodeids" if holds else "nodes_falsenodeids"][place])
        found.append(at)
    return found


def _scores(x: Array, targets: int, function: str, voters: str, ids: str, tree: dict[str, Any]) -> Array:
    weights = _numbers(tree.get(f"{voters}_weights_as_tensor"), tree.get(f"{voters}_weights"))
    keys = list(zip(tree[f"{voters}_treeids"], tree[f"{voters}_nodeids"], strict=True))
    base = _numbers(tree.get("base_values_as_tensor"), tree.get("base_values") or [0.0] * targets)
    rows = []
    for row in x.astype(np.float64):
        leaves = _leaves(row, tree)
        votes = [(tree[ids][place], weights[place]) for place, key in enumerate(keys) if key in leaves]
        rows.append(_aggregate(votes, targets, function, len(leaves)))
    return np.array(rows).reshape(len(x), targets) + base


@definition
def grown(x: Array, *, n_targets: int, aggregate_function: str, post_transform: str, **tree: Any) -> Array:
    return after(_scores(x, n_targets, aggregate_function, "target", "target_ids", tree), post_transform)


@definition
def sorted_by_tree(
    x: Array, *, post_transform: str, classlabels_int64s: Any = None, classlabels_strings: Any = None, **tree: Any
) -> tuple[Array, Array]:
    labels = np.array(classlabels_strings or classlabels_int64s, object if classlabels_strings else None)
    scores = _scores(x, len(labels), "SUM", "class", "class_ids", tree)
    return labels[scores.argmax(1)], after(scores, post_transform)


_ROWS = drawn((4, 2), values=(0.5, 3.5, 2.5, 1.5, -1.0, 4.0, 3.0, 0.0))
_MISSING = [[0.5, float("nan")], [float("nan"), 1.0], [2.0, float("nan")]]
#: If the first feature is at most 1, the first leaf; otherwise the second feature tells which.
_NODES: dict[str, Any] = {
    "nodes_treeids": [0] * 5,
    "nodes_nodeids": [0, 1, 2, 3, 4],
    "nodes_featureids": [0, 0, 1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [1.0, 0.0, 2.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 3, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0],
}


def _doubles(given: dict[str, Any]) -> dict[str, Any]:
    """The same, with tensors of doubles in place of the lists of floats."""
    return {f"{name}_as_tensor" if isinstance(value[0], float) else name:
            helper.make_tensor(name, onnx.TensorProto.DOUBLE, [len(value)], value) if isinstance(value[0], float)
            else value for name, value in given.items()}  # fmt: skip


_HITS: dict[str, Any] = {"nodes_hitrates": [1.0] * 5}
#: The same tree again, whose nodes have another number of the tree.
_TWO_TREES = {**{name: values * 2 for name, values in _NODES.items()}, "nodes_treeids": [0] * 5 + [1] * 5}
_TWO_TREES["nodes_values"] = [1.0, 0.0, 2.0, 0.0, 0.0, 2.5, 0.0, 1.0, 0.0, 0.0]
_TARGETS: dict[str, Any] = {"target_ids": [0, 0, 0], "target_nodeids": [1, 3, 4], "target_treeids": [0, 0, 0],
                            "target_weights": [1.5, -2.0, 4.25]}  # fmt: skip
_SHARES: dict[str, Any] = {**_TARGETS, "target_weights": [0.25, 0.5, 0.875]}
_MORE: dict[str, Any] = {"target_ids": [0] * 6, "target_nodeids": [1, 3, 4] * 2, "target_treeids": [0] * 3 + [1] * 3,
                         "target_weights": [1.5, -2.0, 4.25, 0.5, 3.0, -1.0], "n_targets": 1}  # fmt: skip
_PAIRS: dict[str, Any] = {"target_ids": [0, 1] * 3, "target_nodeids": [1, 1, 3, 3, 4, 4], "target_treeids": [0] * 6,
                          "target_weights": [1.5, -2.0, 4.25, 0.5, 3.0, -1.0], "n_targets": 2}  # fmt: skip
tree_ensemble_regressor = node(
    "TreeEnsembleRegressor",
    grown,
    call(_ROWS, n_targets=1, **_NODES, **_TARGETS),
    call(_ROWS, n_targets=1, base_values=[0.5], **_NODES, **_TARGETS, **_HITS),
    *(call(_ROWS, aggregate_function=each, **_TWO_TREES, **_MORE) for each in _AGGREGATED),
    *(call(_ROWS, post_transform=each, **_NODES, **_PAIRS) for each in ("SOFTMAX", "LOGISTIC")),
    call(_ROWS, n_targets=1, post_transform="PROBIT", **_NODES, **_SHARES),
    call((0, 2), n_targets=1, **_NODES, **_TARGETS),
    call(drawn((1, 2), values=(0.5, 3.5)), n_targets=1, **_NODES, **_TARGETS),
    domain=ML,
)
tree_ensemble_regressor_of_floats = node(
    "TreeEnsembleRegressor",
    grown,
    call(_MISSING, n_targets=1, nodes_missing_value_tracks_true=[1, 0, 0, 0, 0], **_NODES, **_TARGETS),
    *(
        call(_ROWS, n_targets=1, **{**_NODES, "nodes_modes": [mode, "LEAF", mode, "LEAF", "LEAF"]}, **_TARGETS)
        for mode in (*_COMPARED,)[1:]
    ),
    domain=ML,
    integers=False,
)


def _are_doubles(types: Any) -> bool:
    return bool(types.get("T", types.get("T1")) == "tensor(double)")


tree_ensemble_regressor_of_doubles = node(
    "TreeEnsembleRegressor",
    grown,
    call(_ROWS, n_targets=1, **_doubles({**_NODES, **_TARGETS, **_HITS, "base_values": [0.5]})),
    where=_are_doubles,
    domain=ML,
    since=3,
)
_CLASSES: dict[str, Any] = {"class_ids": [0, 1, 2], "class_nodeids": [1, 3, 4], "class_treeids": [0, 0, 0],
                            "class_weights": [1.0, 0.75, 0.5]}  # fmt: skip
_LABELS: dict[str, Any] = {"classlabels_int64s": [4, 5, 6]}
_INTEGER: dict[str, Any] = {"usual": {"T2": "int64"}, "domain": ML}
tree_ensemble_classifier = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_ROWS, **_LABELS, **_NODES, **_CLASSES),
    call(drawn((1, 2)), **_LABELS, **_NODES, **_CLASSES),
    call(drawn((0, 2)), **_LABELS, **_NODES, **_CLASSES),
    call(_ROWS, post_transform="SOFTMAX", **_LABELS, **_NODES, **_CLASSES),
    call(_ROWS, base_values=[0.5, 0.125, -0.5], post_transform="LOGISTIC", **_LABELS, **_NODES, **_CLASSES, **_HITS),
    where=lambda types: types["T2"] == "tensor(int64)",
    **_INTEGER,
)
tree_ensemble_classifier_of_missing_values = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_MISSING, nodes_missing_value_tracks_true=[1, 0, 0, 0, 0], **_LABELS, **_NODES, **_CLASSES),
    where=lambda types: types["T2"] == "tensor(int64)",
    integers=False,
    **_INTEGER,
)
tree_ensemble_classifier_of_doubles = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_ROWS, **_LABELS, **_doubles({**_NODES, **_CLASSES, **_HITS, "base_values": [0.5, 0.125, -0.5]})),
    where=lambda types: types["T2"] == "tensor(int64)" and _are_doubles(types),
    since=3,
    **_INTEGER,
)
tree_ensemble_classifier_of_names = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_ROWS, classlabels_strings=["a", "b", "c"], **_NODES, **_CLASSES),
    where=lambda types: types["T2"] == "tensor(string)",
    usual={"T2": "string"},
    domain=ML,
)

# --- TreeEnsemble -----------------------------------------------------------------------------------------------------

_NAN = float("nan")
_MODES = (*_COMPARED, "BRANCH_MEMBER")


def _walk(row: Array, at: int, tree: dict[str, Any], splits: Array, members: list[set[float]]) -> int:
    """The leaf that a row comes to from a node."""
    modes = _numbers(tree["nodes_modes"]).astype(int).tolist()
    missing = tree.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    while True:
        value, mode = row[tree["nodes_featureids"][at]], _MODES[modes[at]]
        if np.isnan(value):
            holds = bool(missing[at])
        elif mode == "BRANCH_MEMBER":
            holds = float(value) in members[modes[:at].count(modes[at])]
        else:
            holds = _COMPARED[mode](value, splits[at])
        way = "true" if holds else "false"
        is_leaf, at = tree[f"nodes_{way}leafs"][at], tree[f"nodes_{way}nodeids"][at]
        if is_leaf:
            return int(at)


@definition
def ensemble(x: Array, *, n_targets: int, aggregate_function: int, post_transform: int, **tree: Any) -> Array:
    splits, weights = _numbers(tree["nodes_splits"]), _numbers(tree["leaf_weights"])
    members: list[set[float]] = [set()]
    for each in _numbers(tree.get("membership_values"), []).tolist():
        members = [*members, set()] if np.isnan(each) else [*members[:-1], members[-1] | {each}]
    rows = []
    for row in x.astype(np.float64):
        leaves = [_walk(row, root, tree, splits, members) for root in tree["tree_roots"]]
        votes = [(tree["leaf_targetids"][leaf], float(weights[leaf])) for leaf in leaves]
        rows.append(_aggregate(votes, n_targets, _AGGREGATED[aggregate_function], len(leaves)))
    return after(np.array(rows).reshape(len(x), n_targets), _TRANSFORMS[post_transform])


def _modes(*modes: int) -> onnx.TensorProto:
    return helper.make_tensor("modes", onnx.TensorProto.UINT8, [len(modes)], modes)


#: The tree of above: the leaves are no nodes.
_INNER: dict[str, Any] = {
    "tree_roots": [0],
    "nodes_featureids": [0, 1],
    "nodes_truenodeids": [0, 1],
    "nodes_trueleafs": [1, 1],
    "nodes_falsenodeids": [1, 2],
    "nodes_falseleafs": [0, 1],
    "nodes_splits": TensorOf("T", (1.0, 2.0)),
}
_RATES = helper.make_tensor("rates", onnx.TensorProto.FLOAT, [2], [1.0, 0.5])
_ONE_TARGET: dict[str, Any] = {
    "leaf_targetids": [0, 0, 0],
    "leaf_weights": TensorOf("T", (1.5, -2.0, 4.25)),
    "n_targets": 1,
}
_TWO_TARGETS: dict[str, Any] = {
    "leaf_targetids": [0, 1, 0],
    "leaf_weights": TensorOf("T", (1.5, -2.0, 4.25)),
    "n_targets": 2,
}
#: Two trees of one node each.
_STUMPS: dict[str, Any] = {
    "tree_roots": [0, 1],
    "nodes_featureids": [0, 1],
    "nodes_truenodeids": [0, 2],
    "nodes_trueleafs": [1, 1],
    "nodes_falsenodeids": [1, 3],
    "nodes_falseleafs": [1, 1],
    "nodes_splits": TensorOf("T", (1.0, 2.0)),
    "nodes_modes": _modes(0, 0),
    "leaf_targetids": [0] * 4,
    "leaf_weights": TensorOf("T", (1.5, -2.0, 4.25, 0.5)),
    "n_targets": 1,
}
tree_ensemble = node(
    "TreeEnsemble",
    ensemble,
    *(call(_ROWS, nodes_modes=_modes(mode, mode), **_INNER, **_ONE_TARGET) for mode in range(6)),
    call(_ROWS, nodes_modes=_modes(0, 0), nodes_hitrates=_RATES, **_INNER, **_TWO_TARGETS),
    call(_MISSING, nodes_modes=_modes(0, 0), nodes_missing_value_tracks_true=[1, 0], **_INNER, **_ONE_TARGET),
    call(_ROWS, nodes_modes=_modes(0, 6), membership_values=TensorOf("T", (3.5, 4.0, 1.5, _NAN)), **_INNER,
         **_ONE_TARGET),
    *(call(_ROWS, aggregate_function=each, **_STUMPS) for each in range(4)),
    *(call(_ROWS, nodes_modes=_modes(0, 0), post_transform=each, **_INNER, **_TWO_TARGETS) for each in (1, 2, 3)),
    call(_ROWS, nodes_modes=_modes(0, 0), post_transform=4, **_INNER, leaf_targetids=[0, 0, 0],
         leaf_weights=TensorOf("T", (0.25, 0.5, 0.875)), n_targets=1),
    call((0, 2), nodes_modes=_modes(0, 0), **_INNER, **_ONE_TARGET),
    call((1, 2), nodes_modes=_modes(0, 0), **_INNER, **_ONE_TARGET),
    domain=ML,
)  # fmt: skip
