"""TorchScript's language: expressions and builtin functions.

Each function uses one construct, and the model runs at other values and sizes too. Where tracing loses nothing, the
function is also exported by tracing.
"""

# TorchScript reads type comments, so these cannot stand in the functions.
# mypy: disable-error-code="no-any-return"

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, op, scripted

_ROWS = {"x": {0: "rows"}}


@torch.jit.script
class Box:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n


# --- expressions ---


def comprehension(x: Tensor) -> tuple[Tensor, Tensor]:
    items = [i * 2 for i in range(x.size(0))]
    return torch.tensor(items) + x.sum(), torch.stack([row + 1 for row in x])


def comprehension_list(x: Tensor) -> Tensor:
    items = [y * 2 for y in [x, x + 1]]
    return items[0] + items[1]


def dict_comprehension(x: Tensor) -> Tensor:
    d = {i: x * i for i in range(3)}
    return d[2] + d[1]


def list_slicing(x: Tensor) -> Tensor:
    items = [x, x * 2, x * 3, x * 4]
    return items[1:3][0] + items[-1] + items[::2][1] + items[:2][-1]


def list_slice_by_value(x: Tensor) -> Tensor:
    items = [x, x * 2, x * 3, x * 4]
    k = int(x.size(0) > 2) + 1
    return torch.stack(items[:k]).sum(0)


def list_slice_by_size(x: Tensor) -> tuple[Tensor, Tensor]:
    """Slices whose bounds are before the list, in the other order, or beyond it with other numbers of rows."""
    items = [x, x * 2, x * 3, x * 4]
    rows = x.size(0)
    return torch.stack(items[: rows - 1]).sum(0), torch.stack(items[rows - 1 : 2] + items[-rows:]).sum(0)


def str_slicing(x: Tensor) -> Tensor:
    s = "abcdef"
    return x + len(s[1:3]) + int(s[0] == "a") + ord(s[-1])


def tuple_slicing(x: Tensor) -> Tensor:
    t = (x, x * 2, x * 3)
    return t[1:][0] + t[-1]


def fstrings(x: Tensor) -> Tensor:
    s = f"n={x.dim()}" + "{}-{}".format(1, "a")
    return x + len(s)


def ternary(x: Tensor) -> Tensor:
    y = x * 2 if bool(x.sum() > 0) else x - 1
    k = 3 if bool(x[0, 0] > 0) else 4
    return y + k


def in_list(x: Tensor) -> Tensor:
    k = abs(int(x.sum())) % 5
    return x + int(k in [1, 2, 3]) + int(k not in [2, 4])


def in_dict(x: Tensor) -> Tensor:
    d = {"a": 1, "b": 2}
    return x + int("a" in d) + int("z" in d)


def is_none(x: Tensor, y: Tensor | None = None) -> Tensor:
    return x + int(y is None) + int(x is not None)


def chained_comparison(x: Tensor) -> Tensor:
    k = float(x.mean())
    return x + int(-1.0 < k <= 0.5) + int(0 <= x.size(0) < 4 < 5)


def augmented(x: Tensor) -> Tensor:
    k = int(x.sum())
    k += 2
    k -= 1
    k *= 3
    f = float(k)
    f /= 2
    y = x.clone()
    y += f
    y *= 2
    y -= 1
    y /= 3
    return y + k


def augmented_items(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] += 1
    y[:, 1] *= 2
    items = [1, int(x.sum())]
    items[1] += 2
    return y + items[1]


def unpacking(x: Tensor) -> Tensor:
    (a, b), c = (x, x * 2), x + 1
    d = x * 2
    a, b = b, a
    return a - b + c + d


def unpack_split(x: Tensor) -> Tensor:
    a, b = x.split(2, dim=1)
    c, d = x.unbind(1)[:2]
    h, w = x.shape
    return a * b * h + w + (c + d).unsqueeze(1)


def matmul_operator(x: Tensor) -> tuple[Tensor, Tensor]:
    return x @ x.t(), x.t() @ x


def tensor_comparison(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (x > 0) & (x < 1) | ~(x == 2) ^ (x != 1), x >= x.mean(), x <= 1


def tensor_indexing(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return x[0], x[:, 1], x[..., -1], x[None], x[x > 0], x[:, [0, 2]], x[0, 1:3]


def tensor_assignment(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[0] = x[0]
    y[:, 1] = 5.0
    y[x > 1] = -1.0
    return y


def default_arguments(x: Tensor, k: int = 2, f: float = 0.5, flag: bool = True) -> Tensor:
    return x * k + f if flag else x


def keyword_call(x: Tensor) -> Tensor:
    return torch.sum(x, dim=1, keepdim=True) + default_arguments(x, flag=False) + default_arguments(x, f=2.0, k=3)


def calls(x: Tensor) -> Tensor:
    return ternary(chained_comparison(x)) + in_list(x)


script_comprehension_over_range = op(scripted(comprehension), floats(3, 4), dynamic=_ROWS)
script_comprehension_list = op(scripted(comprehension_list), floats(3, 4), dynamic=_ROWS)
traced_comprehension_list = op(comprehension_list, floats(3, 4), dynamic=_ROWS)
script_dict_comprehension = op(scripted(dict_comprehension), floats(3, 4), dynamic=_ROWS)
traced_dict_comprehension = op(dict_comprehension, floats(3, 4), dynamic=_ROWS)
script_list_slicing = op(scripted(list_slicing), floats(3, 4), dynamic=_ROWS)
traced_list_slicing = op(list_slicing, floats(3, 4), dynamic=_ROWS)
script_list_slice_by_value = op(scripted(list_slice_by_value), floats(3, 4), dynamic=_ROWS)
script_list_slice_by_size = op(scripted(list_slice_by_size), floats(3, 4), dynamic=_ROWS, sizes={"rows": (2, 7, 4)})
script_str_slicing = op(scripted(str_slicing), floats(3, 4), dynamic=_ROWS)
traced_str_slicing = op(str_slicing, floats(3, 4), dynamic=_ROWS)
script_tuple_slicing = op(scripted(tuple_slicing), floats(3, 4), dynamic=_ROWS)
traced_tuple_slicing = op(tuple_slicing, floats(3, 4), dynamic=_ROWS)
script_fstrings = op(scripted(fstrings), floats(3, 4), dynamic=_ROWS)
traced_fstrings = op(fstrings, floats(3, 4), dynamic=_ROWS)
script_ternary = op(scripted(ternary), floats(3, 4), dynamic=_ROWS)
script_in_list = op(scripted(in_list), floats(3, 4), dynamic=_ROWS)
script_in_dict = op(scripted(in_dict), floats(3, 4), dynamic=_ROWS)
traced_in_dict = op(in_dict, floats(3, 4), dynamic=_ROWS)
script_is_none = op(scripted(is_none), floats(3, 4), dynamic=_ROWS)
traced_is_none = op(is_none, floats(3, 4), dynamic=_ROWS)
script_chained_comparison = op(scripted(chained_comparison), floats(3, 4), dynamic=_ROWS)
script_augmented = op(scripted(augmented), floats(3, 4), dynamic=_ROWS)
script_augmented_items = op(scripted(augmented_items), floats(3, 4), dynamic=_ROWS)
script_unpacking = op(scripted(unpacking), floats(3, 4), dynamic=_ROWS)
traced_unpacking = op(unpacking, floats(3, 4), dynamic=_ROWS)
script_unpack_split = op(scripted(unpack_split), floats(3, 4), dynamic=_ROWS)
traced_unpack_split = op(unpack_split, floats(3, 4), dynamic=_ROWS)
script_matmul_operator = op(scripted(matmul_operator), floats(3, 4), dynamic=_ROWS)
traced_matmul_operator = op(matmul_operator, floats(3, 4), dynamic=_ROWS)
script_tensor_comparison = op(scripted(tensor_comparison), floats(3, 4), dynamic=_ROWS)
traced_tensor_comparison = op(tensor_comparison, floats(3, 4), dynamic=_ROWS)
script_tensor_indexing = op(scripted(tensor_indexing), floats(3, 4), dynamic=_ROWS)
traced_tensor_indexing = op(tensor_indexing, floats(3, 4), dynamic=_ROWS)
script_tensor_assignment = op(scripted(tensor_assignment), floats(3, 4), dynamic=_ROWS)
traced_tensor_assignment = op(tensor_assignment, floats(3, 4), dynamic=_ROWS)
script_default_arguments = op(scripted(default_arguments), floats(3, 4), dynamic=_ROWS)
traced_default_arguments = op(default_arguments, floats(3, 4), dynamic=_ROWS)
script_keyword_call = op(scripted(keyword_call), floats(3, 4), dynamic=_ROWS)
traced_keyword_call = op(keyword_call, floats(3, 4), dynamic=_ROWS)
script_calls = op(scripted(calls), floats(3, 4), dynamic=_ROWS)

# --- builtins ---


def builtin_len(x: Tensor) -> Tensor:
    return x + len([1, 2]) + len((1, 2, 3)) + len("abc") + len({"a": 1}) + len(x)


def min_max(x: Tensor) -> Tensor:
    k = int(x.sum())
    f = float(x.mean())
    return x + min(k, 3) + max(k, 2, 1) + min([k, 5, 6]) + max([f, 0.5]) + min(f, 1.0) + max(x.size(0), 4)


def builtin_abs_round(x: Tensor) -> Tensor:
    f = float(x.sum())
    return x + abs(f) + round(f) + abs(int(f))


def builtin_sum(x: Tensor) -> Tensor:
    return x + sum([1, 2, x.size(0)]) + sum([0.5, float(x.mean())])


def any_all(x: Tensor) -> Tensor:
    k = int(x.sum())
    return x + int(any([k > 0, k < -5])) + int(all([k > -100, k < 3]))


def any_all_ints(x: Tensor) -> Tensor:
    return x + int(any([0, 0])) + int(all([1, 2]))


def builtin_divmod(x: Tensor) -> Tensor:
    a, b = divmod(abs(int(x.sum())), 3)
    c, d = divmod(float(x.mean()) + 3.0, 0.7)
    return x + a * b + c * d


def ord_chr(x: Tensor) -> Tensor:
    return x + ord("a") + len(chr(97))


def casts(x: Tensor) -> Tensor:
    f = float(x.sum())
    k = int(f)
    return x + k + float(k) + int(bool(k)) + float(bool(x[0, 0] > 0)) + int(True) + float("1.5") + int("2")


def str_cast(x: Tensor) -> Tensor:
    return x + len(str(12)) + len(str(True))


def builtin_sorted(x: Tensor) -> Tensor:
    items = sorted([3, 1, 2])
    return x + items[0] * 10 + items[2]


def sort_values(x: Tensor) -> Tensor:
    items = [int(x.sum()), 2, 5]
    items.sort()
    return x + items[0] * 10 + items[2]


def builtin_reversed(x: Tensor) -> Tensor:
    t = x
    for y in [x, x * 2, x * 3][::-1]:
        t = t * 0.5 + y
    for i in list(range(3))[::-1]:
        t = t * i + 1
    return t


def hasattr_getattr(x: Tensor) -> Tensor:
    return x + int(hasattr(Box(x, 1), "n"))


def builtin_isinstance(x: Tensor) -> Tensor:
    k = 2
    return x + int(isinstance(k, int)) + int(isinstance(x, Tensor))


def builtin_list(x: Tensor) -> Tensor:
    items = list(range(x.dim()))
    m = list("abc")
    return x + items[1] + len(m) + len(list(items))


def builtin_pow(x: Tensor) -> Tensor:
    return x + pow(2, 3) + pow(float(x.abs().mean()), 2.0) + 2 ** x.size(0)


def builtin_hash_id(x: Tensor) -> Tensor:
    return x + int(x.is_floating_point()) + x.dim() + x.ndim


script_builtin_len = op(scripted(builtin_len), floats(3, 4), dynamic=_ROWS)
script_min_max = op(scripted(min_max), floats(3, 4), dynamic=_ROWS)
script_builtin_abs_round = op(scripted(builtin_abs_round), floats(3, 4), dynamic=_ROWS)
script_builtin_sum = op(scripted(builtin_sum), floats(3, 4), dynamic=_ROWS)
script_any_all = op(scripted(any_all), floats(3, 4), dynamic=_ROWS)
script_any_all_ints = op(scripted(any_all_ints), floats(3, 4), dynamic=_ROWS)
traced_any_all_ints = op(any_all_ints, floats(3, 4), dynamic=_ROWS)
script_builtin_divmod = op(scripted(builtin_divmod), floats(3, 4), dynamic=_ROWS)
script_ord_chr = op(scripted(ord_chr), floats(3, 4), dynamic=_ROWS)
traced_ord_chr = op(ord_chr, floats(3, 4), dynamic=_ROWS)
script_casts = op(scripted(casts), floats(3, 4), dynamic=_ROWS)
script_str_cast = op(scripted(str_cast), floats(3, 4), dynamic=_ROWS)
traced_str_cast = op(str_cast, floats(3, 4), dynamic=_ROWS)
script_builtin_sorted = op(scripted(builtin_sorted), floats(3, 4), dynamic=_ROWS)
traced_builtin_sorted = op(builtin_sorted, floats(3, 4), dynamic=_ROWS)
script_sort_values = op(scripted(sort_values), floats(3, 4), dynamic=_ROWS)
script_builtin_reversed = op(scripted(builtin_reversed), floats(3, 4), dynamic=_ROWS)
traced_builtin_reversed = op(builtin_reversed, floats(3, 4), dynamic=_ROWS)
script_hasattr_getattr = op(scripted(hasattr_getattr), floats(3, 4), dynamic=_ROWS)
traced_hasattr_getattr = op(hasattr_getattr, floats(3, 4), dynamic=_ROWS)
script_builtin_isinstance = op(scripted(builtin_isinstance), floats(3, 4), dynamic=_ROWS)
traced_builtin_isinstance = op(builtin_isinstance, floats(3, 4), dynamic=_ROWS)
script_builtin_list = op(scripted(builtin_list), floats(3, 4), dynamic=_ROWS)
traced_builtin_list = op(builtin_list, floats(3, 4), dynamic=_ROWS)
script_builtin_pow = op(scripted(builtin_pow), floats(3, 4), dynamic=_ROWS)
script_builtin_hash_id = op(scripted(builtin_hash_id), floats(3, 4), dynamic=_ROWS)
traced_builtin_hash_id = op(builtin_hash_id, floats(3, 4), dynamic=_ROWS)
