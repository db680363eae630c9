"""The operators of ai.onnx.ml that have tensors as inputs and outputs, and that onnx.reference has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_parity.harness.onnx_node import ML, Array, Types, call, definition, drawn, dtype_of, node

# --- features ---------------------------------------------------------------------------------------------------------


@definition
def extracted(x: Array, indices: Array) -> Array:
    return np.take(np.atleast_2d(x), indices.ravel(), -1)


array_feature_extractor = node(
    "ArrayFeatureExtractor",
    extracted,
    call((2, 4), [[1, 3]]),
    call((2, 3), [0]),
    call((1, 4), [2, 2, 0]),
    domain=ML,
    exact=True,
)
binarizer = node(
    "Binarizer",
    definition(lambda x, threshold: (x > threshold).astype(np.int64)),
    call((2, 3)),
    call((2, 3), threshold=1.0),
    call((0, 3)),
    domain=ML,
)


@definition
def joined(*tensors: Array, inputdimensions: Sequence[int]) -> Array:
    """Of each row, as many features as are named; what is not there is 0."""
    rows = [each.reshape(len(each), -1) for each in tensors]
    return np.concatenate([np.pad(row[:, :size], [(0, 0), (0, max(size - row.shape[1], 0))])
                           for row, size in zip(rows, inputdimensions, strict=True)], 1)  # fmt: skip


feature_vectorizer = node(
    "FeatureVectorizer",
    joined,
    call((2, 2), (2, 3), inputdimensions=[2, 3]),
    call((2, 1), inputdimensions=[1]),
    call((2, 3), (2, 2), inputdimensions=[2, 2]),
    domain=ML,
)


@definition
def imputed(
    x: Array, imputed_value_floats: Any = None, imputed_value_int64s: Any = None, replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:  # fmt: skip
    """NaN can be what is replaced, though it is not equal to itself."""
    values = np.array(imputed_value_floats or imputed_value_int64s)
    replaced = replaced_value_int64 if x.dtype.kind in "iu" else replaced_value_float
    missing = np.isnan(x) if np.isnan(replaced) else x == replaced
    return np.where(missing, np.broadcast_to(values, x.shape), x)


_HOLES = drawn((2, 3), values=(1.0, -1.0, 2.0, 3.0, -1.0, -1.0))
imputer_of_floats = node(
    "Imputer",
    imputed,
    call(_HOLES, imputed_value_floats=[9.0], replaced_value_float=-1.0),
    call(_HOLES, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=-1.0),
    call([[float("nan"), 1.0]], imputed_value_floats=[5.0], replaced_value_float=float("nan")),
    where=lambda types: "int" not in types["T"],
    domain=ML,
    exact=True,
)
imputer_of_integers = node(
    "Imputer",
    imputed,
    call(_HOLES, imputed_value_int64s=[9], replaced_value_int64=-1),
    call(_HOLES, imputed_value_int64s=[7, 8, 9], replaced_value_int64=-1),
    where=lambda types: "int" in types["T"],
    domain=ML,
)


@definition
def scaled(x: Array, offset: Sequence[float], scale: Sequence[float]) -> Array:
    made: Array = (x - np.array(offset)) * np.array(scale)
    return made


scaler = node(
    "Scaler",
    scaled,
    call((2, 3), offset=[1.0], scale=[0.5]),
    call((2, 3), offset=[1.0, -1.0, 0.0], scale=[0.5, 2.0, 1.0]),
    domain=ML,
)


@definition
def normalized(x: Array, norm: str) -> Array:
    """Each row is divided by its largest magnitude, or its sum of them, or of their squares."""
    wide = x.astype(np.float64)
    if norm == "MAX":
        return np.asarray(wide / np.abs(wide).max(-1, keepdims=True))
    if norm == "L1":
        return np.asarray(wide / np.abs(wide).sum(-1, keepdims=True))
    made: Array = wide / np.sqrt(np.square(wide).sum(-1, keepdims=True))
    return made


normalizer = node(
    "Normalizer", normalized, *(call(drawn((2, 3), 1.0, 4.0), norm=norm) for norm in ("MAX", "L1", "L2")), domain=ML
)


@definition
def one_hot(x: Array, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1) -> Array:
    """A category that is not known has no element of 1."""
    del zeros
    known = np.array(cats_strings or cats_int64s, object if cats_strings else None)
    return np.asarray(np.equal.outer(x, known), np.float64)


one_hot_encoder = node(
    "OneHotEncoder",
    one_hot,
    call(drawn((2, 2), values=(1.0, 3.0, 2.0, 1.0)), cats_int64s=[1, 2, 3]),
    call(drawn((3,), values=(1.0, 7.0, 2.0)), cats_int64s=[1, 2], zeros=1),
    where=lambda types: "string" not in types["T"],
    domain=ML,
)
one_hot_encoder_of_strings = node(
    "OneHotEncoder",
    one_hot,
    call(["a", "c", "b"], cats_strings=["a", "b", "c"]),
    where=lambda types: "string" in types["T"],
    domain=ML,
)

# --- labels -----------------------------------------------------------------------------------------------------------

_KINDS = {"string": "strings", "int64": "int64s", "float": "floats"}


@definition
def labelled(x: Array, types: Types, **given: Any) -> Array:
    """Each key has its value, and what is no key the default."""
    (keys,) = (value for name, value in given.items() if name.startswith("keys_"))
    ((kind, values),) = ((name[7:], value) for name, value in given.items() if name.startswith("values_"))
    default = given[{"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}[kind]]
    known = dict(zip(keys, values, strict=True))
    made = [known.get(each, default) for each in x.ravel().tolist()]
    return np.array(made, dtype_of(types["T2"])).reshape(x.shape)


def _encoder(key: str, value: str, default: Any, **more: Any) -> Any:
    keys = {"string": ["a", "b", "c"], "int64": [1, 2, 3], "float": [1.0, 2.0, 3.0]}[key]
    values = {"string": ["x", "y", "z"], "int64": [10, 20, 30], "float": [0.5, 1.5, 2.5]}[value]
    x = ["a", "c", "q", "b"] if key == "string" else [[1, 3], [7, 2]]
    named: dict[str, Any] = {f"keys_{_KINDS[key]}": keys, f"values_{_KINDS[value]}": values}
    return node(
        "LabelEncoder",
        labelled,
        call(x, **named),
        call(x, **{f"default_{value}": default, **named}),
        where=lambda types: types["T1"] == f"tensor({key})" and types["T2"] == f"tensor({value})",
        usual={"T2": value},
        domain=ML,
        exact=True,
        since=2,
        **more,
    )


encode_strings_as_integers = _encoder("string", "int64", -5)
encode_integers_as_strings = _encoder("int64", "string", "none")
encode_strings_as_floats = _encoder("string", "float", -0.5)
encode_floats_as_strings = _encoder("float", "string", "none")
encode_integers_as_floats = _encoder("int64", "float", -0.5)
encode_floats_as_integers = _encoder("float", "int64", -5)
encode_integers = _encoder("int64", "int64", -5)
encode_floats = _encoder("float", "float", -0.5)
encode_strings = _encoder("string", "string", "none")

# --- linear models ----------------------------------------------------------------------------------------------------


def _after(scores: Array, transform: str) -> Array:
    if transform == "LOGISTIC":
        return np.asarray(1 / (1 + np.exp(-scores)))
    if transform.startswith("SOFTMAX"):
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        if transform == "SOFTMAX_ZERO":
            exponentials = np.where(scores == 0, 0.0, exponentials)
        return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))
    return scores


@definition
def regressed(
    x: Array, *, targets: int, post_transform: str, coefficients: Sequence[float], intercepts: Any = None
) -> Array:
    scores = x.astype(np.float64) @ np.array(coefficients).reshape(targets, -1).T
    return _after(scores if intercepts is None else scores + np.array(intercepts), post_transform)


_COEFFICIENTS = [0.5, -1.0, 0.25, 1.5, 0.75, -0.5]
linear_regressor = node(
    "LinearRegressor",
    regressed,
    call((4, 3), coefficients=_COEFFICIENTS[:3]),
    call((4, 3), coefficients=_COEFFICIENTS, intercepts=[0.5, -0.25], targets=2),
    domain=ML,
)


@definition
def classified(
    x: Array, *, coefficients: Sequence[float], multi_class: int, post_transform: str, intercepts: Any = None,
    classlabels_ints: Any = None, classlabels_strings: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    del multi_class
    labels = np.array(classlabels_strings or classlabels_ints, object if classlabels_strings else None)
    scores = x.astype(np.float64) @ np.array(coefficients).reshape(len(labels), -1).T
    scores = scores if intercepts is None else scores + np.array(intercepts)
    return labels[scores.argmax(-1)], _after(scores, post_transform)


_THREE: dict[str, Any] = {"coefficients": [*_COEFFICIENTS, 0.3, 0.2, -0.7], "intercepts": [0.5, -0.25, 0.1]}
linear_classifier = node(
    "LinearClassifier",
    classified,
    call((4, 3), classlabels_ints=[4, 5, 6], **_THREE),
    call((4, 3), classlabels_ints=[4, 5, 6], post_transform="SOFTMAX", **_THREE),
    call((4, 3), classlabels_ints=[4, 5, 6], post_transform="LOGISTIC", multi_class=1, **_THREE),
    usual={"T2": "int64"},
    where=lambda types: types["T2"] == "tensor(int64)",
    domain=ML,
)
linear_classifier_of_names = node(
    "LinearClassifier",
    classified,
    call((4, 3), classlabels_strings=["a", "b", "c"], **_THREE),
    usual={"T2": "string"},
    where=lambda types: types["T2"] == "tensor(string)",
    domain=ML,
)

# --- support vectors --------------------------------------------------------------------------------------------------


def _kernel(x: Array, vectors: Array, kind: str, gamma: float, coef0: float, degree: float) -> Array:
    if kind == "RBF":
        return np.asarray(np.exp(-gamma * np.square(x[:, None] - vectors).sum(-1)))
    products = x @ vectors.T
    if kind == "POLY":
        return np.asarray((gamma * products + coef0) ** degree)
    return np.asarray(np.tanh(gamma * products + coef0)) if kind == "SIGMOID" else products


@definition
def supported(
    x: Array, *, coefficients: Sequence[float], rho: Sequence[float], n_supports: int, kernel_type: str,
    post_transform: str, one_class: int, kernel_params: Any = None, support_vectors: Any = None,
) -> Array:  # fmt: skip
    """Without support vectors, the coefficients are those of the features."""
    wide = x.astype(np.float64)
    if n_supports:
        vectors = np.array(support_vectors).reshape(n_supports, -1)
        found = _kernel(wide, vectors, kernel_type, *(kernel_params or (0, 0, 0))) @ np.array(coefficients) + rho[0]
    else:
        found = wide @ np.array(coefficients) + rho[0]
    found = found[:, None]
    return np.where(found > 0, 1.0, -1.0) if one_class else _after(found, post_transform)


_SUPPORTS: dict[str, Any] = {"coefficients": [0.5, -0.25], "rho": [0.125], "n_supports": 2,
                             "support_vectors": [1.0, 0.0, -1.0, 0.5, 2.0, 1.0]}  # fmt: skip
svm_regressor = node(
    "SVMRegressor",
    supported,
    call((4, 3), kernel_type="LINEAR", kernel_params=[0.1, 0.5, 2.0], **_SUPPORTS),
    *(
        call((4, 3), kernel_type=kind, kernel_params=[0.1, 0.5, 2.0], **_SUPPORTS)
        for kind in ("RBF", "POLY", "SIGMOID")
    ),
    call((4, 3), coefficients=[0.5, 0.25, -1.0], rho=[0.5], kernel_params=[0.1, 0.5, 2.0]),
    call((4, 3), kernel_type="RBF", kernel_params=[0.1, 0.0, 0.0], one_class=1, **_SUPPORTS),
    low=-1.0,
    high=1.0,
    domain=ML,
)


@definition
def separated(
    x: Array, *, classlabels_ints: Any = None, classlabels_strings: Any = None, coefficients: Sequence[float],
    rho: Sequence[float], kernel_type: str, kernel_params: Any = None, post_transform: str,
    support_vectors: Sequence[float], vectors_per_class: Sequence[int],
) -> tuple[Array, Array]:  # fmt: skip
    """Two classes, whose scores are the decision and its opposite."""
    del post_transform
    labels = np.array(classlabels_strings or classlabels_ints, object if classlabels_strings else None)
    vectors = np.array(support_vectors).reshape(sum(vectors_per_class), -1)
    found = _kernel(x.astype(np.float64), vectors, kernel_type, *(kernel_params or (0, 0, 0))) @ np.array(coefficients)
    score = found + rho[0]
    return np.where(score > 0, labels[0], labels[1]), np.stack([score, -score], 1)


svm_classifier = node(
    "SVMClassifier",
    separated,
    call((4, 3), classlabels_ints=[4, 5], coefficients=[0.5, -0.25], rho=[0.125], kernel_type="LINEAR",
         kernel_params=[0.1, 0.5, 2.0], support_vectors=[1.0, 0.0, -1.0, 0.5, 2.0, 1.0], vectors_per_class=[1, 1]),
    usual={"T2": "int64"},
    where=lambda types: types["T2"] == "tensor(int64)",
    domain=ML,
)  # fmt: skip


# --- trees ------------------------------------------------------------------------------------------------------------

_ROWS = drawn((4, 2), values=(0.5, 3.5, 2.5, 1.5, -1.0, 4.0, 3.0, 0.0))
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


def _leaf(row: Array) -> int:
    if row[0] <= 1:
        return 0
    return 1 if row[1] <= 2 else 2


@definition
def grown(
    x: Array, post_transform: str, target_weights: Sequence[float], base_values: Any = None, **tree: Any
) -> Array:
    del tree
    found = np.array([[target_weights[_leaf(row)]] for row in x]) + (0.0 if base_values is None else base_values[0])
    return _after(found, post_transform)


_TARGETS: dict[str, Any] = {"target_ids": [0, 0, 0], "target_nodeids": [1, 3, 4], "target_treeids": [0, 0, 0],
                            "target_weights": [1.5, -2.0, 4.25], "n_targets": 1}  # fmt: skip
tree_ensemble_regressor = node(
    "TreeEnsembleRegressor",
    grown,
    call(_ROWS, **_NODES, **_TARGETS),
    call(_ROWS, base_values=[0.5], **_NODES, **_TARGETS),
    *(call(_ROWS, aggregate_function=each, **_NODES, **_TARGETS) for each in ("AVERAGE", "MIN", "MAX")),
    domain=ML,
)


@definition
def sorted_by_tree(
    x: Array, post_transform: str, class_weights: Sequence[float], classlabels_int64s: Any = None,
    classlabels_strings: Any = None, **tree: Any,
) -> tuple[Array, Array]:  # fmt: skip
    del tree
    labels = np.array(classlabels_strings or classlabels_int64s, object if classlabels_strings else None)
    scores = np.array(
        [[weight if place == _leaf(row) else 0.0 for place, weight in enumerate(class_weights)] for row in x]
    )
    return labels[scores.argmax(1)], _after(scores, post_transform)


_CLASSES: dict[str, Any] = {"class_ids": [0, 1, 2], "class_nodeids": [1, 3, 4], "class_treeids": [0, 0, 0],
                            "class_weights": [1.0, 0.75, 0.5]}  # fmt: skip
tree_ensemble_classifier = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_ROWS, classlabels_int64s=[4, 5, 6], **_NODES, **_CLASSES),
    call(_ROWS, classlabels_int64s=[4, 5, 6], post_transform="SOFTMAX", **_NODES, **_CLASSES),
    where=lambda types: types["T2"] == "tensor(int64)",
    usual={"T2": "int64"},
    domain=ML,
)
tree_ensemble_classifier_of_names = node(
    "TreeEnsembleClassifier",
    sorted_by_tree,
    call(_ROWS, classlabels_strings=["a", "b", "c"], **_NODES, **_CLASSES),
    where=lambda types: types["T2"] == "tensor(string)",
    usual={"T2": "string"},
    domain=ML,
)
