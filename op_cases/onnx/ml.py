"""The operators of ai.onnx.ml but for those of trees and of maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from onnx_parity.harness.onnx_node import ML, Array, TensorOf, Types, call, definition, drawn, dtype_of, node

# --- features ---------------------------------------------------------------------------------------------------------


@definition
def extracted(x: Array, indices: Array) -> Array:
    return np.take(np.atleast_2d(x), indices.ravel(), -1)


array_feature_extractor = node(
    "ArrayFeatureExtractor",
    extracted,
    call((2, 4), [[1, 3]]),
    call((0, 4), [[1, 3]]),
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
    call((1,)),
    call((0, 3)),
    domain=ML,
)


@definition
def joined(*tensors: Array, inputdimensions: Sequence[int]) -> Array:
    """Of each row, as many features as are named; what is not there is 0."""
    rows = [each.reshape(len(each), math.prod(each.shape[1:])) for each in tensors]
    return np.concatenate([np.pad(row[:, :size], [(0, 0), (0, max(size - row.shape[1], 0))])
                           for row, size in zip(rows, inputdimensions, strict=True)], 1)  # fmt: skip


feature_vectorizer = node(
    "FeatureVectorizer",
    joined,
    call((2, 2), (2, 3), inputdimensions=[2, 3]),
    call((2, 1), inputdimensions=[1]),
    call((0, 2), (0, 3), inputdimensions=[2, 3]),
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
    call((0, 3), imputed_value_floats=[9.0], replaced_value_float=-1.0),
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
    call((1, 1), offset=[1.0], scale=[0.5]),
    call((0, 1), offset=[1.0], scale=[0.5]),
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
    "Normalizer",
    normalized,
    *(call(drawn((2, 3), 1.0, 4.0), norm=norm) for norm in ("MAX", "L1", "L2")),
    call(drawn((1, 3), 1.0, 4.0)),
    call((0, 3)),
    domain=ML,
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
    call(drawn((1, 1), values=(2.0,)), cats_int64s=[1, 2]),
    call((0, 2), cats_int64s=[1, 2]),
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


def _between(first: str, second: str) -> Callable[[Types], bool]:
    return lambda types: types["T1"] == f"tensor({first})" and types["T2"] == f"tensor({second})"


@definition
def categorized(
    x: Array, types: Types, *, default_int64: int, default_string: str, classes_strings: Sequence[str] = (),
    cats_strings: Sequence[str] = (), cats_int64s: Sequence[int] = (),
) -> Array:  # fmt: skip
    """Strings become the integers that they stand beside, or their places, and integers the strings."""
    strings, integers = (cats_strings, cats_int64s) if cats_strings else (classes_strings, range(len(classes_strings)))
    of_strings = {**dict(zip(strings, integers, strict=True))}
    of_integers = {**dict(zip(integers, strings, strict=True))}
    if types["T2"] == "tensor(int64)":
        return np.array([of_strings.get(each, default_int64) for each in x.ravel()], np.int64).reshape(x.shape)
    return np.array([of_integers.get(int(each), default_string) for each in x.ravel()], object).reshape(x.shape)


_BOTH = (("string", "int64", ["b", "q", "a"], {"default_int64": -7}),
         ("int64", "string", [[1, 0], [7, 1]], {"default_string": "none"}))  # fmt: skip
(label_of_string, label_of_integer), (category_of_string, category_of_integer) = (
    [
        node(operator, categorized, call(x, **classes, **default), call(x, **classes), call((0,), **classes, **default),
             call((1,), **classes, **default),
             where=_between(first, second), usual={"T1": first, "T2": second}, domain=ML, before=2)
        for first, second, x, default in _BOTH
    ]
    for operator, classes in (
        ("LabelEncoder", {"classes_strings": ["a", "b"]}),
        ("CategoryMapper", {"cats_strings": ["a", "b"], "cats_int64s": [1, 10]}),
    )
)  # fmt: skip
_KINDS = {"string": "strings", "int64": "int64s", "float": "floats"}


@definition
def labelled(x: Array, types: Types, **given: Any) -> Array:
    """Each key has its value, and what is no key the default."""
    (keys,) = (value for name, value in given.items() if name.startswith("keys_"))
    ((kind, values),) = ((name[7:], value) for name, value in given.items() if name.startswith("values_"))
    named = {"strings": "string", "int64s": "int64", "floats": "float", "tensor": "tensor"}[kind]
    (default,) = _elements([given[f"default_{named}"]] if kind != "tensor" else given["default_tensor"])
    known = dict(zip(_elements(keys), _elements(values), strict=True))
    made = [known.get(each, default) for each in x.ravel().tolist()]
    return np.array(made, dtype_of(types["T2"])).reshape(x.shape)


def _elements(given: Any) -> list[Any]:
    if not isinstance(given, onnx.TensorProto):
        return list(given)
    return [each.decode() if isinstance(each, bytes) else each for each in numpy_helper.to_array(given).tolist()]


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
        call(x[:1], **named),
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
_TENSORS: dict[str, Any] = {"keys_tensor": TensorOf("T1", (1, 2, 3)), "values_tensor": TensorOf("T2", (10, 20, 30)),
            "default_tensor": TensorOf("T2", (-5,))}  # fmt: skip
encode_by_tensors, encode_by_tensors_as_integers = (
    node("LabelEncoder", labelled, call([[1, 3], [7, 2]], **_TENSORS), usual=usual, where=where, domain=ML, exact=True,
         since=4)
    for usual, where in (
        ({}, lambda types: types["T1"] == types["T2"]),
        ({"T2": "int32"}, lambda types: types["T1"] != types["T2"] == "tensor(int32)"),
    )
)  # fmt: skip

# --- linear models ----------------------------------------------------------------------------------------------------


def after(scores: Array, transform: str) -> Array:
    if transform == "LOGISTIC":
        return np.asarray(1 / (1 + np.exp(-scores)))
    if transform == "PROBIT":
        return np.asarray(torch.special.ndtri(torch.from_numpy(scores)))
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
    return after(scores if intercepts is None else scores + np.array(intercepts), post_transform)


_COEFFICIENTS = [0.5, -1.0, 0.25, 1.5, 0.75, -0.5]
linear_regressor = node(
    "LinearRegressor",
    regressed,
    call((4, 3), coefficients=_COEFFICIENTS[:3]),
    call((1, 3), coefficients=_COEFFICIENTS[:3], intercepts=[0.5]),
    call((0, 3), coefficients=_COEFFICIENTS[:3]),
    call((4, 3), coefficients=_COEFFICIENTS, intercepts=[0.5, -0.25], targets=2),
    *(call((4, 3), coefficients=_COEFFICIENTS, targets=2, post_transform=each) for each in ("SOFTMAX", "LOGISTIC")),
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
    return labels[scores.argmax(-1)], after(scores, post_transform)


_THREE: dict[str, Any] = {"coefficients": [*_COEFFICIENTS, 0.3, 0.2, -0.7], "intercepts": [0.5, -0.25, 0.1]}
linear_classifier = node(
    "LinearClassifier",
    classified,
    call((4, 3), classlabels_ints=[4, 5, 6], **_THREE),
    call((1, 3), classlabels_ints=[4, 5, 6], **_THREE),
    call((0, 3), classlabels_ints=[4, 5, 6], **_THREE),
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
    return np.where(found > 0, 1.0, -1.0) if one_class else after(found, post_transform)


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
    call((1, 3), coefficients=[0.5, 0.25, -1.0], rho=[0.5], kernel_params=[0.1, 0.5, 2.0]),
    call((0, 3), kernel_type="LINEAR", kernel_params=[0.1, 0.5, 2.0], **_SUPPORTS),
    call((4, 3), kernel_type="RBF", kernel_params=[0.1, 0.0, 0.0], one_class=1, **_SUPPORTS),
    call((4, 3), kernel_type="RBF", kernel_params=[0.1, 0.0, 0.0], post_transform="LOGISTIC", **_SUPPORTS),
    low=-1.0,
    high=1.0,
    domain=ML,
)


@definition
def separated(
    x: Array, *, classlabels_ints: Any = None, classlabels_strings: Any = None, coefficients: Sequence[float],
    rho: Sequence[float], kernel_type: str, kernel_params: Any = None,
    support_vectors: Sequence[float], vectors_per_class: Sequence[int], **transforms: Any,
) -> Array:  # fmt: skip
    """The first of two classes if the decision is positive. What the scores of two classes are, the specification does
    not say, so no case asks for them."""
    del transforms
    labels = np.array(classlabels_strings or classlabels_ints, object if classlabels_strings else None)
    vectors = np.array(support_vectors).reshape(sum(vectors_per_class), -1)
    found = _kernel(x.astype(np.float64), vectors, kernel_type, *(kernel_params or (0, 0, 0))) @ np.array(coefficients)
    return np.asarray(labels[np.where(found + rho[0] > 0, 0, 1)])


_MACHINE: dict[str, Any] = {"coefficients": [0.5, -0.25], "rho": [0.125], "kernel_type": "LINEAR",
                            "kernel_params": [0.1, 0.5, 2.0], "support_vectors": [1.0, 0.0, -1.0, 0.5, 2.0, 1.0],
                            "vectors_per_class": [1, 1]}  # fmt: skip
svm_classifier = node(
    "SVMClassifier",
    separated,
    call((4, 3), classlabels_ints=[4, 5], outputs=[0], **_MACHINE),
    call((1, 3), classlabels_ints=[4, 5], outputs=[0], **_MACHINE),
    call((0, 3), classlabels_ints=[4, 5], outputs=[0], **_MACHINE),
    call((4, 3), classlabels_ints=[4, 5], post_transform="LOGISTIC", outputs=[0], **_MACHINE),
    call((4, 3), classlabels_ints=[4, 5], prob_a=[-1.5], prob_b=[0.25], outputs=[0], **_MACHINE),
    usual={"T2": "int64"},
    where=lambda types: types["T2"] == "tensor(int64)",
    domain=ML,
)  # fmt: skip
svm_classifier_of_names = node(
    "SVMClassifier",
    separated,
    call((4, 3), classlabels_strings=["a", "b"], outputs=[0], **_MACHINE),
    usual={"T2": "string"},
    where=lambda types: types["T2"] == "tensor(string)",
    domain=ML,
)
