"""TorchScript's language: types.

Each function uses one construct, and the model runs at other values and sizes too. Where tracing loses nothing, the
function is also exported by tracing.
"""

# TorchScript reads type comments, so these cannot stand in the functions.
# mypy: disable-error-code="no-any-return"

from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, ints, op, scripted

_ROWS = {"x": {0: "rows"}}


class Color(Enum):
    RED = 1
    GREEN = 2


class Pair(NamedTuple):
    first: Tensor
    number: int


@torch.jit.script
class Box:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n

    def grow(self, by: float) -> Tensor:
        self.x = self.x * by
        self.n += 1
        return self.x

    @staticmethod
    def two() -> int:
        return 2

    @property
    def double(self) -> Tensor:
        return self.x * 2


# --- types ---


def int_arithmetic(x: Tensor) -> tuple[Tensor, float]:
    k = int(x.sum())
    return x + (k * 2 - 3) // 2 + k % 3 - (-k) + abs(k - 9), k**2


def float_arithmetic(x: Tensor) -> Tensor:
    f = float(x.mean())
    return x * (f * 2 - 0.5) / (abs(f) + 1.0) + f**2 - f // 0.3 + f % 0.7


def int_bits(x: Tensor) -> Tensor:
    k = abs(int(x.sum()))
    return x * ((k & 5) | 2) + (k ^ 3) + (k << 1) - (k >> 1)


def bool_logic(x: Tensor) -> Tensor:
    a = bool(x.sum() > 0)
    b = bool(x[0, 0] > 0)
    return x * int(a and b) + int(a or b) + int(not a) + int(a != b)


def str_concat(x: Tensor) -> Tensor:
    s = "ab" + "cd"
    return x + len(s)


def optional_arg(x: Tensor, y: Tensor | None = None) -> Tensor:
    if y is None:
        y = x * 2
    return x + y


def optional_value(x: Tensor) -> Tensor:
    y: Tensor | None = None
    if bool(x.sum() > 0):
        y = x * 2
    if y is not None:
        return y + 1
    return x


def optional_number(x: Tensor) -> Tensor:
    n: int | None = None
    if bool(x.sum() > 0):
        n = int(x[0, 0])
    if n is None:
        return x
    return x + n


def optional_unwrapped(x: Tensor) -> Tensor:
    y: Tensor | None = x if bool(x.sum() > 0) else x * 2
    assert y is not None
    return y + 1


def list_of_ints(x: Tensor) -> Tensor:
    items = [1, 2, x.size(0)]
    items.append(int(x.sum()))
    return x + items[0] + items[2] * items[-1] + len(items)


def list_of_lists(x: Tensor) -> Tensor:
    items = [[x, x * 2], [x * 3]]
    items[1].append(x + 1)
    return items[1][1] + items[0][0] + len(items)


def dict_of_tensors(x: Tensor) -> Tensor:
    d: dict[str, Tensor] = {"a": x, "b": x * 2}
    d["c"] = d["a"] + d["b"]
    t = torch.zeros_like(x)
    for k, v in d.items():
        if k != "b":
            t = t + v
    return t


def dict_int_keys(x: Tensor) -> Tensor:
    d: dict[int, Tensor] = {1: x, 2: x * 2}
    return d[1] + d[2]


def dict_written_in_branch(x: Tensor) -> Tensor:
    d: dict[str, Tensor] = {"a": x}
    if bool(x.sum() > 0):
        d["a"] = x * 2
    return d["a"]


def tuple_types(x: Tensor) -> Tensor:
    t: tuple[Tensor, int, float] = (x, int(x.sum()), 0.5)
    a, b, c = t
    return a * b + c + t[1]


def named_tuple(x: Tensor) -> Tensor:
    p = Pair(x * 2, int(x.sum()))
    q = Pair(first=p.first + 1, number=p.number + 1)
    return p.first * p.number + q.first + q[1]


def returns_named_tuple(x: Tensor) -> Pair:
    return Pair(x + 1, int(x.sum()))


def class_instance(x: Tensor) -> Tensor:
    b = Box(x, 1)
    for i in range(x.size(0)):  # noqa: B007
        b.grow(1.5)
    return b.double + b.n + Box.two()


def class_in_branch(x: Tensor) -> Tensor:
    b = Box(x, 1)
    if bool(x.sum() > 0):
        b.grow(2.0)
    else:
        b.n = 7
    return b.x + b.n


def enums(x: Tensor) -> Tensor:
    c = Color.RED
    if c == Color.GREEN:
        return x
    return x + c.value + len(c.name)


def enum_passed(x: Tensor) -> Tensor:
    return _tinted(x, Color.GREEN)


def _tinted(x: Tensor, color: Color) -> Tensor:
    return x * color.value if color.name == "GREEN" else x


def dict_of_pairs(x: Tensor) -> Tensor:
    d = dict([(str(i), x * i) for i in range(3)])  # noqa: C404
    e: dict[str, Tensor] = dict()  # noqa: C408
    e.update(d)
    return e["1"] + d["2"]


def device_type(x: Tensor) -> Tensor:
    d = torch.device("cpu")
    if x.device == d and d.type == "cpu":
        return torch.ones(2, device=d) + x.sum()
    return x


def dtype_type(x: Tensor) -> tuple[Tensor, Tensor]:
    d = torch.int32
    y = x.to(d)
    return y.to(x.dtype) + torch.zeros(1, dtype=x.dtype), y


def any_type(x: Tensor) -> Tensor:
    v: Any = x
    if isinstance(v, Tensor):
        return v + 1
    return x


def union_type(x: Tensor) -> Tensor:
    v: int | Tensor = x * 2
    if isinstance(v, int):
        return x + v
    return x + v


def number_is_int(x: Tensor) -> Tensor:
    n = x.sum().item()
    if isinstance(n, int):
        return x + 1
    return x - 1


def number_is_float(x: Tensor) -> Tensor:
    n = x.sum().item()
    if isinstance(n, float):
        return x + 1
    return x - 1


def kind_of_any(v: Any) -> int:
    if isinstance(v, bool):
        return 1
    if isinstance(v, int):
        return 2
    if isinstance(v, float):
        return 3
    return 4


def kinds_of_numbers(x: Tensor) -> tuple[int, int, int, int, int]:
    n = x.sum()
    return kind_of_any(n.item()), kind_of_any(float(n)), kind_of_any(int(n)), kind_of_any(n > 0), kind_of_any(bool(n))


def asks_for_nonzero(x: Tensor) -> Tensor:
    if torch.is_nonzero(x.sum()):
        return x + 1
    return x - int(torch.is_nonzero(x.max()))


script_int_arithmetic = op(scripted(int_arithmetic), floats(3, 4), dynamic=_ROWS)
script_float_arithmetic = op(scripted(float_arithmetic), floats(3, 4), dynamic=_ROWS)
script_int_bits = op(scripted(int_bits), floats(3, 4), dynamic=_ROWS)
script_bool_logic = op(scripted(bool_logic), floats(3, 4), dynamic=_ROWS)
script_str_concat = op(scripted(str_concat), floats(3, 4), dynamic=_ROWS)
traced_str_concat = op(str_concat, floats(3, 4), dynamic=_ROWS)
script_optional_arg = op(scripted(optional_arg), floats(3, 4), dynamic=_ROWS)
traced_optional_arg = op(optional_arg, floats(3, 4), dynamic=_ROWS)
script_optional_value = op(scripted(optional_value), floats(3, 4), dynamic=_ROWS)
script_optional_number = op(scripted(optional_number), floats(3, 4), dynamic=_ROWS)
script_optional_unwrapped = op(scripted(optional_unwrapped), floats(3, 4), dynamic=_ROWS)
script_list_of_ints = op(scripted(list_of_ints), floats(3, 4), dynamic=_ROWS)
script_list_of_lists = op(scripted(list_of_lists), floats(3, 4), dynamic=_ROWS)
traced_list_of_lists = op(list_of_lists, floats(3, 4), dynamic=_ROWS)
script_dict_of_tensors = op(scripted(dict_of_tensors), floats(3, 4), dynamic=_ROWS)
traced_dict_of_tensors = op(dict_of_tensors, floats(3, 4), dynamic=_ROWS)
script_dict_int_keys = op(scripted(dict_int_keys), floats(3, 4), dynamic=_ROWS)
traced_dict_int_keys = op(dict_int_keys, floats(3, 4), dynamic=_ROWS)
script_dict_written_in_branch = op(scripted(dict_written_in_branch), floats(3, 4), dynamic=_ROWS)
script_tuple_types = op(scripted(tuple_types), floats(3, 4), dynamic=_ROWS)
script_named_tuple = op(scripted(named_tuple), floats(3, 4), dynamic=_ROWS)
script_returns_named_tuple = op(scripted(returns_named_tuple), floats(3, 4), dynamic=_ROWS)
script_class_instance = op(scripted(class_instance), floats(3, 4), dynamic=_ROWS)
script_class_in_branch = op(scripted(class_in_branch), floats(3, 4), dynamic=_ROWS)
script_enums = op(scripted(enums), floats(3, 4), dynamic=_ROWS)
traced_enums = op(enums, floats(3, 4), dynamic=_ROWS)
script_enum_passed = op(scripted(enum_passed), floats(3, 4), dynamic=_ROWS)
script_dict_of_pairs = op(scripted(dict_of_pairs), floats(3, 4), dynamic=_ROWS)
script_device_type = op(scripted(device_type), floats(3, 4), dynamic=_ROWS)
traced_device_type = op(device_type, floats(3, 4), dynamic=_ROWS)
script_dtype_type = op(scripted(dtype_type), floats(3, 4), dynamic=_ROWS)
traced_dtype_type = op(dtype_type, floats(3, 4), dynamic=_ROWS)
script_any_type = op(scripted(any_type), floats(3, 4), dynamic=_ROWS)
traced_any_type = op(any_type, floats(3, 4), dynamic=_ROWS)
script_union_type = op(scripted(union_type), floats(3, 4), dynamic=_ROWS)
traced_union_type = op(union_type, floats(3, 4), dynamic=_ROWS)
script_float_is_int = op(scripted(number_is_int), floats(3, 4), dynamic=_ROWS)
script_int_is_int = op(scripted(number_is_int), ints(3, 4), dynamic=_ROWS)
script_float_is_float = op(scripted(number_is_float), floats(3, 4), dynamic=_ROWS)
script_int_is_float = op(scripted(number_is_float), ints(3, 4), dynamic=_ROWS)
script_kinds_of_numbers = op(scripted(kinds_of_numbers), floats(3, 4), dynamic=_ROWS)
script_asks_for_nonzero = op(scripted(asks_for_nonzero), ints(3, 4, high=2), dynamic=_ROWS)
