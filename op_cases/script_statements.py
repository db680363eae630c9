"""TorchScript's language: statements.

Each function uses one construct, and the model runs at other values and sizes too. Where tracing loses nothing, the
function is also exported by tracing.
"""

import torch
from torch import Tensor

from onnx_parity.harness.case import floats, ints, op, scripted

_ROWS = {"x": {0: "rows"}}

# --- statements ---


def if_elif_else(x: Tensor) -> Tensor:
    s = x.sum()
    if bool(s > 3):
        y = x * 2
    elif bool(s > 0):
        y = x - 1
    else:
        y = -x
    return y


def nested_if(x: Tensor) -> Tensor:
    y = x
    if bool(x.sum() > 0):
        if bool(x.max() > 1):  # noqa: SIM108
            y = y * 3
        else:
            y = y + 4
    return y


def if_number(x: Tensor) -> Tensor:
    n = int(x.sum())
    if n:
        return x / n
    return x


def while_number(x: Tensor) -> tuple[Tensor, int]:
    n = 0
    while n < 5 and bool(x.abs().max() < 20):
        x = x * 2 + 1
        n += 1
    return x, n


def while_true(x: Tensor) -> Tensor:
    n = 0
    while True:
        n += 1
        if n > x.size(0) or bool(x.sum() > 50):
            break
        x = x + 1
    return x


def for_range(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        x = x + i
    return x


def for_range_step(x: Tensor) -> Tensor:
    for i in range(1, x.size(0) * 2, 2):
        x = x + i
    for j in range(x.size(0), 0, -1):
        x = x * 0.5 + j
    return x


def for_range_value(x: Tensor) -> Tensor:
    t = x[0]
    for i in range(abs(int(x.sum())) % 4):
        t = t + i
    return t


def for_list(x: Tensor) -> Tensor:
    for f in [1.5, 2.5, float(x.mean())]:
        x = x + f
    return x


def for_tuple(x: Tensor) -> Tensor:
    t = torch.zeros_like(x)
    for y in (x, x * 2, x + 1):
        t = t + y
    return t


def for_dict(x: Tensor) -> Tensor:
    d = {"a": 1.0, "b": float(x.mean())}
    for k in d:  # noqa: PLC0206
        x = x + d[k]
    for v in d.values():
        x = x * v
    return x


def for_zip(x: Tensor) -> Tensor:
    t = x
    for a, b in zip([1.0, 2.0], [x, x * 3]):  # noqa: B905
        t = t + a * b
    return t


def for_enumerate(x: Tensor) -> Tensor:
    t = x
    for i, row in enumerate(x):
        t = t + i * row
    return t


def for_tensor(x: Tensor) -> Tensor:
    t = torch.zeros(4, dtype=x.dtype)
    for row in x:
        t = t * 0.5 + row
    return t


def for_string(x: Tensor) -> Tensor:
    n = 0
    for c in "abca":
        if c == "a":
            n += 1
    return x + n


def break_continue(x: Tensor) -> Tensor:
    t = torch.zeros(4, dtype=x.dtype)
    for i in range(x.size(0)):
        if bool(x[i].sum() < 0):
            continue
        if bool(t.sum() > 4):
            break
        t = t + x[i]
    return t


def early_return_loop(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        if bool(x[i].sum() > 1):
            return x[i] * i
    return x.sum(0)


def assert_value(x: Tensor) -> Tensor:
    assert x.dim() == 2, "two axes"
    return x + 1


def with_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y


def pass_del(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        pass
    y = x + 1
    d = {"a": y, "b": x}
    del d["b"]
    items = [x, y]
    del items[0]
    return items[0] + len(d)


def early_return_nested(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        for i in range(3):
            if bool(x.max() > i):
                return x + i
        return x * 2
    return x


def writes_after_loop(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    for _ in range(int(n)):
        y = y * 2
    for _ in range(int(n)):
        y += 1
    return y, x


def writes_after_branch(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both branches give a transposed tensor, of which `contiguous` is a copy."""
    y = x.t() * 2 if bool(x.sum() > 0) else x.t() - 1
    z = y.contiguous()
    z += 1
    return y, z


script_if_elif_else = op(scripted(if_elif_else), floats(3, 4), dynamic=_ROWS)
script_nested_if = op(scripted(nested_if), floats(3, 4), dynamic=_ROWS)
script_if_number = op(scripted(if_number), floats(3, 4), dynamic=_ROWS)
script_while_number = op(scripted(while_number), floats(3, 4), dynamic=_ROWS)
script_while_true = op(scripted(while_true), floats(3, 4), dynamic=_ROWS)
script_for_range = op(scripted(for_range), floats(3, 4), dynamic=_ROWS)
script_for_range_step = op(scripted(for_range_step), floats(3, 4), dynamic=_ROWS)
script_for_range_value = op(scripted(for_range_value), floats(3, 4), dynamic=_ROWS)
script_for_list = op(scripted(for_list), floats(3, 4), dynamic=_ROWS)
script_for_tuple = op(scripted(for_tuple), floats(3, 4), dynamic=_ROWS)
traced_for_tuple = op(for_tuple, floats(3, 4), dynamic=_ROWS)
script_for_dict = op(scripted(for_dict), floats(3, 4), dynamic=_ROWS)
script_for_zip = op(scripted(for_zip), floats(3, 4), dynamic=_ROWS)
traced_for_zip = op(for_zip, floats(3, 4), dynamic=_ROWS)
script_for_enumerate = op(scripted(for_enumerate), floats(3, 4), dynamic=_ROWS)
script_for_tensor = op(scripted(for_tensor), floats(3, 4), dynamic=_ROWS)
script_for_string = op(scripted(for_string), floats(3, 4), dynamic=_ROWS)
traced_for_string = op(for_string, floats(3, 4), dynamic=_ROWS)
script_break_continue = op(scripted(break_continue), floats(3, 4), dynamic=_ROWS)
script_early_return_loop = op(scripted(early_return_loop), floats(3, 4), dynamic=_ROWS)
script_writes_after_loop = op(scripted(writes_after_loop), floats(3, 4), ints(high=4), dynamic={"x0": {0: "rows"}})
script_writes_after_branch = op(scripted(writes_after_branch), floats(3, 4))
script_assert_value = op(scripted(assert_value), floats(3, 4), dynamic=_ROWS)
traced_assert_value = op(assert_value, floats(3, 4), dynamic=_ROWS)
script_with_no_grad = op(scripted(with_no_grad), floats(3, 4), dynamic=_ROWS)
traced_with_no_grad = op(with_no_grad, floats(3, 4), dynamic=_ROWS)
script_pass_del = op(scripted(pass_del), floats(3, 4), dynamic=_ROWS)
script_early_return_nested = op(scripted(early_return_nested), floats(3, 4), dynamic=_ROWS)
