"""TorchScript's language: the math module, methods of lists, dicts, strings and tuples, numbers of tensors.

Each function uses one construct, and the model runs at other values and sizes too. Where tracing loses nothing, the
function is also exported by tracing.
"""

# TorchScript reads type comments, so these cannot stand in the functions.
# mypy: disable-error-code="attr-defined"

import math

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, op, scripted

_ROWS = {"x": {0: "rows"}}

# --- math ---


def math_roots(x: Tensor) -> Tensor:
    f = float(x.abs().sum()) + 1.0
    return x + math.sqrt(f) + math.log(f) + math.exp(-f) + math.log10(f) + math.log1p(f) + math.expm1(-f)


def math_trig(x: Tensor) -> Tensor:
    f = float(x.tanh().mean()) * 0.9
    return x + math.sin(f) + math.cos(f) + math.tan(f) + math.asin(f) + math.acos(f) + math.atan(f) + math.atan2(f, 2.0)


def math_hyperbolic(x: Tensor) -> Tensor:
    f = float(x.tanh().mean()) * 0.9
    return x + math.sinh(f) + math.cosh(f) + math.tanh(f) + math.asinh(f) + math.acosh(f + 2) + math.atanh(f)


def math_rounding(x: Tensor) -> Tensor:
    f = float(x.sum())
    return x + math.floor(f) + math.ceil(f) + int(f)


def math_tests(x: Tensor) -> Tensor:
    f = float(x.sum())
    return x + int(math.isnan(f)) + int(math.isinf(f)) + int(math.isfinite(f))


def math_more(x: Tensor) -> Tensor:
    f = float(x.sum())
    y = x + math.fabs(f) + math.copysign(2.0, f) + math.fmod(f, 0.7)
    return y + math.pow(2.0, f * 0.1) + math.degrees(f) * 0.01 + math.radians(f)


def math_ints(x: Tensor) -> Tensor:
    return x + math.gcd(12, 18) + math.factorial(4)


def math_gamma(x: Tensor) -> Tensor:
    f = float(x.abs().mean()) + 1.0
    return x + math.gamma(f) + math.lgamma(f) + math.erf(f) + math.erfc(f)


def math_of_sizes(x: Tensor) -> Tensor:
    return x / math.sqrt(x.size(0)) + math.ceil(x.size(0) / 2) + math.floor(x.size(0) * 0.5)


def math_hypot(x: Tensor) -> Tensor:
    f = float(x.mean())
    return x + math.atan2(f, 2.0) + math.ldexp(f, 3)


script_math_roots = op(scripted(math_roots), floats(3, 4), dynamic=_ROWS)
script_math_trig = op(scripted(math_trig), floats(3, 4), dynamic=_ROWS)
script_math_hyperbolic = op(scripted(math_hyperbolic), floats(3, 4), dynamic=_ROWS)
script_math_rounding = op(scripted(math_rounding), floats(3, 4), dynamic=_ROWS)
script_math_tests = op(scripted(math_tests), floats(3, 4), dynamic=_ROWS)
script_math_more = op(scripted(math_more), floats(3, 4), dynamic=_ROWS)
script_math_ints = op(scripted(math_ints), floats(3, 4), dynamic=_ROWS)
traced_math_ints = op(math_ints, floats(3, 4), dynamic=_ROWS)
script_math_gamma = op(scripted(math_gamma), floats(3, 4), dynamic=_ROWS)
script_math_of_sizes = op(scripted(math_of_sizes), floats(3, 4), dynamic=_ROWS)
script_math_hypot = op(scripted(math_hypot), floats(3, 4), dynamic=_ROWS)

# --- methods ---


def list_methods(x: Tensor) -> Tensor:
    items = [1, 2, 3]
    items.append(4)
    items.extend([5, 6])
    items.insert(0, 9)
    items.remove(2)
    items.reverse()
    items.sort()
    return x + items.pop() * 10 + items.pop(0) + items.index(3) + items.count(4) + len(items.copy())


def list_clear(x: Tensor) -> Tensor:
    items = [x, x]
    items.clear()
    items.append(x * 2)
    return items[0]


def list_arithmetic(x: Tensor) -> Tensor:
    items = [1, 2] + [x.size(0)]  # noqa: RUF005
    m = [0] * 3
    return x + items[2] + len(m) + int(items == [1, 2, 3]) + int(items != m)


def dict_methods(x: Tensor) -> Tensor:
    d = {"a": 1, "b": 2}
    d.update({"c": x.size(0)})
    e = d.copy()
    n = d.pop("a")
    k = d.setdefault("z", 7)
    return x + n + k + d.get("q", 5) + len(e) + len(list(d.keys())) + d["c"]


def dict_get_none(x: Tensor) -> Tensor:
    d = {"a": x}
    y = d.get("b")
    z = d.get("a")
    if y is None and z is not None:
        return z + 1
    return x


def dict_items_order(x: Tensor) -> Tensor:
    d = {"b": 1.0, "a": 2.0}
    t = x
    for k, v in d.items():
        t = t * v + len(k)
    return t


def str_methods(x: Tensor) -> Tensor:
    s = "Hello World"
    n = s.find("W") + s.count("o") + int(s.startswith("He")) + int(s.endswith("d"))
    m = len(s.upper().lower().strip().replace("o", "00")) + len(s.split(" ")) + len("-".join(["a", "b"]))
    return x + n + m + int(s.isdigit()) + int("5".isdigit()) + len(s.title())


def tuple_methods(x: Tensor) -> Tensor:
    t = (1, 2) + (3,)  # noqa: RUF005
    return x + t[2] + int((1, 2) == (1, 2)) + int((1, x.size(0)) == (1, 3))


def size_list(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s = x.size()
    return x.view(s[1], s[0]) + len(s), x.new_zeros(s), x.reshape(s[::-1])


def list_of_values_in(x: Tensor) -> Tensor:
    items = [int(x.sum()), 3]
    return x + int(3 in items) + items.index(3) if 3 in items else x


def list_with_value_index(x: Tensor) -> Tensor:
    k = abs(int(x.sum())) % 3
    return [x, x * 2, x * 3][k] + [1.5, 2.5, 3.5][k]


def tensor_number_methods(x: Tensor) -> Tensor:
    return x + x.sum().item() + int(x.numel()) + x.argmax().item() + float(x.max()) + x.stride(0)


def tensor_tolist(x: Tensor) -> Tensor:
    items: list[float] = x[:, 0].tolist()
    t = 0.0
    for v in items:
        t += v
    return x + t + len(items)


def torch_sizes(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    n = x.size(0)
    return torch.zeros(n, 2), torch.arange(n), x.view(n, -1), x.expand(2, n, 4), torch.full([n], 2.0)


def torch_jit_annotate(x: Tensor) -> Tensor:
    items = torch.jit.annotate(list[Tensor], [])
    for i in range(x.size(0)):
        items.append(x[i] * i)
    return torch.stack(items)


def is_scripting(x: Tensor) -> Tensor:
    if torch.jit.is_scripting():
        return x + 1
    return x + 1


def number_outputs(x: Tensor) -> tuple[int, float, bool]:
    return int(x.sum()), float(x.max()), bool(x.sum() > 0)


def nested_outputs(x: Tensor) -> tuple[dict[str, Tensor], list[Tensor], tuple[Tensor, tuple[Tensor, Tensor]]]:
    return {"a": x, "b": x * 2}, [x, x + 1], (x, (x * 3, x))


def number_swap_loop(x: Tensor) -> Tensor:
    a, b = 0, 1
    for i in range(x.size(0)):  # noqa: B007
        a, b = b, a + b
    return x + a


def list_in_loop(x: Tensor) -> Tensor:
    items = [0, 0, 0]
    for i in range(x.size(0)):
        items[i % 3] += i
    return torch.tensor(items) + x.sum()


def tensor_list_loop(x: Tensor) -> Tensor:
    items: list[Tensor] = []
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            items.append(x[i])
    items.append(x[0])
    return torch.stack(items)


def nested_loops(x: Tensor) -> Tensor:
    n = 0
    for i in range(x.size(0)):
        for j in range(i):
            n += j
    return x + n


def none_returned(x: Tensor) -> tuple[Tensor, Tensor | None]:
    y: Tensor | None = None
    if x.dim() > 3:
        y = x
    return x, y


def tensor_truth(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x


def tensor_while(x: Tensor) -> Tensor:
    while x.sum() < 10 and x.size(0) > 0:
        x = x.abs() + 1
    return x


script_list_methods = op(scripted(list_methods), floats(3, 4), dynamic=_ROWS)
traced_list_methods = op(list_methods, floats(3, 4), dynamic=_ROWS)
script_list_clear = op(scripted(list_clear), floats(3, 4), dynamic=_ROWS)
traced_list_clear = op(list_clear, floats(3, 4), dynamic=_ROWS)
script_list_arithmetic = op(scripted(list_arithmetic), floats(3, 4), dynamic=_ROWS)
script_dict_methods = op(scripted(dict_methods), floats(3, 4), dynamic=_ROWS)
traced_dict_methods = op(dict_methods, floats(3, 4), dynamic=_ROWS)
script_dict_get_none = op(scripted(dict_get_none), floats(3, 4), dynamic=_ROWS)
traced_dict_get_none = op(dict_get_none, floats(3, 4), dynamic=_ROWS)
script_dict_items_order = op(scripted(dict_items_order), floats(3, 4), dynamic=_ROWS)
traced_dict_items_order = op(dict_items_order, floats(3, 4), dynamic=_ROWS)
script_str_methods = op(scripted(str_methods), floats(3, 4), dynamic=_ROWS)
traced_str_methods = op(str_methods, floats(3, 4), dynamic=_ROWS)
script_tuple_methods = op(scripted(tuple_methods), floats(3, 4), dynamic=_ROWS)
script_size_list = op(scripted(size_list), floats(3, 4), dynamic=_ROWS)
traced_size_list = op(size_list, floats(3, 4), dynamic=_ROWS)
script_list_of_values_in = op(scripted(list_of_values_in), floats(3, 4), dynamic=_ROWS)
script_list_with_value_index = op(scripted(list_with_value_index), floats(3, 4), dynamic=_ROWS)
script_tensor_number_methods = op(scripted(tensor_number_methods), floats(3, 4), dynamic=_ROWS)
script_tensor_tolist = op(scripted(tensor_tolist), floats(3, 4), dynamic=_ROWS)
script_torch_sizes = op(scripted(torch_sizes), floats(3, 4), dynamic=_ROWS)
traced_torch_sizes = op(torch_sizes, floats(3, 4), dynamic=_ROWS)
script_torch_jit_annotate = op(scripted(torch_jit_annotate), floats(3, 4), dynamic=_ROWS)
script_is_scripting = op(scripted(is_scripting), floats(3, 4), dynamic=_ROWS)
traced_is_scripting = op(is_scripting, floats(3, 4), dynamic=_ROWS)
script_number_outputs = op(scripted(number_outputs), floats(3, 4), dynamic=_ROWS)
script_nested_outputs = op(scripted(nested_outputs), floats(3, 4), dynamic=_ROWS)
traced_nested_outputs = op(nested_outputs, floats(3, 4), dynamic=_ROWS)
script_number_swap_loop = op(scripted(number_swap_loop), floats(3, 4), dynamic=_ROWS)
script_list_in_loop = op(scripted(list_in_loop), floats(3, 4), dynamic=_ROWS)
script_tensor_list_loop = op(scripted(tensor_list_loop), floats(3, 4), dynamic=_ROWS)
script_nested_loops_over_ranges = op(scripted(nested_loops), floats(3, 4), dynamic=_ROWS)
script_none_returned = op(scripted(none_returned), floats(3, 4), dynamic=_ROWS)
traced_none_returned = op(none_returned, floats(3, 4), dynamic=_ROWS)
script_tensor_truth = op(scripted(tensor_truth), floats(3, 4), dynamic=_ROWS)
script_tensor_while = op(
    scripted(tensor_while), floats(3, 4), dynamic=_ROWS, without_draws="of no elements the loop has no end"
)
