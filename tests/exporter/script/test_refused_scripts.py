"""Scripts that cannot be recorded: the text of the error, with the script's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnx_parity

X = torch.ones(2, 3)
N = torch.tensor(3)


def rows(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    each: list[torch.Tensor] = []
    for i in range(int(n)):
        each.append(x * i)
    return each


def of_other_sizes(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    each: list[torch.Tensor] = []
    for i in range(int(n)):
        each.append(x[:i])
    return each


def mixes_dtypes(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = [x, x.double()]
    for i in range(int(n)):
        each.append(x[:i])
    return each[0]


def appends_another_dtype(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = of_other_sizes(x, n)
    each.append(x.double())
    return each[0]


def joins_other_ranks(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = of_other_sizes(x, n)
    each.append(x[0])
    return torch.cat(each)


def turns_round(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = of_other_sizes(x, n)
    each.reverse()
    return each[0]


def takes_from_nothing(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each: list[torch.Tensor] = []
    for i in range(int(n)):
        x = x + each[i]
    return x


def pops_from_nothing(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each: list[torch.Tensor] = []
    return x + each.pop()


def returns_a_pair_or_none(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    result: tuple[torch.Tensor, torch.Tensor] | None = None
    if bool(x.sum() > 0):
        result = (x, x)
    return result


def unpacks(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    one, other = rows(x, n)
    return one + other


def unpacks_too_few(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = [x, x]
    one, two, three = each
    return one + two + three


def takes_what_is_not_there(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = [x, x]
    return each[2]


def asks_for_another_key(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return {"a": x}["b"]


def goes_backwards(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return torch.stack(rows(x, n)[2::-1])


def takes_out(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = rows(x, n)
    each.pop(0)
    return torch.stack(each)


def inserts(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = rows(x, n)
    each.insert(0, x)
    return torch.stack(each)


def steps(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for i in range(0, 10, int(n)):
        x = x + i
    return x


def writes_words(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * len(str(int(n)))


def hands_over_a_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.block_diag(rows(x, n))
    return result


def hands_over_what_may_be_none(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    weight: torch.Tensor | None = None
    if bool(x.sum() > 0):
        weight = x[0]
    result: torch.Tensor = torch.layer_norm(x, [3], weight)
    return result


def chooses_between_kinds(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = {"a": x}
    if bool(x.sum() > 0):
        each = {"b": x}
    return each["a"]


def grows_a_dict(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = {"a": x}
    for _ in range(int(n)):
        each["b"] = x
    return each["a"]


def divides_by_zero(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x * (1 / (x.size(0) - 2))


def compares_lists(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    counts = [i for i in range(int(n))]  # noqa: C416  TorchScript has no list(range(n)) of a number from values
    return x + int(counts == [0, 1])


def sums_a_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    counts: list[int] = []
    for i in range(int(n)):
        counts.append(i)
    return x + sum(counts)


def looks_for_what_is_not_there(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + [1, 2].index(3)


def removes_by_value(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    counts = [1, 2, 3]
    counts.remove(int(n))
    return x + counts[0]


def removes_what_is_not_there(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    counts = [1, 2, 3]
    counts.remove(7)
    return x + counts[0]


def takes_from_an_empty_dict(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each: dict[str, torch.Tensor] = {}
    return x + each.popitem()[1]


@torch.jit.script
class Context:
    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> int:
        return self.depth

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        pass


def enters_a_context(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    with Context():
        x = x + 1
    return x


def slices_unlike_items(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    each = [x, x[0]]
    return each[: int(n)][0]


def takes_a_letter(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + ord("abcdef"[int(n)])


def takes_by_key(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return {1: x, 3: x * 2}[int(n)]


def lists_in_a_list(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    numbers: list[list[float]] = x[: int(n)].tolist()
    return x + len(numbers)


def sets_in_a_branch(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if bool(n > 2):
        y.set_(x)  # type: ignore[call-overload]
    return y


_KEY = (
    "the script uses a number that depends on values as a key of a dict, or as an index into a string or a list of "
    "fixed length: use a tensor and index that"
)


def writes_to_a_chosen_row(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    row = y[0] if bool(n > 2) else y[1]
    row.fill_(0.0)
    return y


def writes_to_a_chosen_item(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    each = [y[:, 0], y[:, 1]]
    each[int(n) - 2].fill_(0.0)
    return y


def writes_to_a_chosen_diagonal(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.diagonal(int(n) - 2).fill_(0.0)
    return y


def writes_to_what_no_iteration_changes(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    z = y
    for _ in range(int(n)):
        z = z + 1
    z.mul_(2)
    return y, z


def writes_to_what_may_have_been_chosen(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    row = y[0] if bool(n > 2) else y[1]
    y.fill_(0.0)
    return y, row


_CHOSEN = (
    "the script writes in place to a tensor that is chosen by a branch, a loop or a number that depends on values, and "
    "reads the same memory under another name: write to a clone"
)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            compares_lists,
            "the script compares a list whose length depends on values: compare its items in a loop",
        ),
        (
            sums_a_list,
            "the script uses all items of a list whose length depends on values: use a loop, or a tensor",
        ),
        (looks_for_what_is_not_there, "the script calls index(3) on a list that does not contain it"),
        (
            removes_by_value,
            "the script removes an item that depends on values from a list: build a new list in a loop instead",
        ),
        (removes_what_is_not_there, "the script calls remove(7) on a list that does not contain it"),
        (takes_from_an_empty_dict, "the script calls popitem on an empty dict"),
        (
            enters_a_context,
            "the script enters a `with` of the class Context, whose __enter__ and __exit__ are "
            "not recorded: call its "
            "methods without `with`",
        ),
        (
            slices_unlike_items,
            "the script slices a list at indices that depend on values, and its items differ in size: take items by "
            "index",
        ),
        (writes_to_a_chosen_row, _CHOSEN),
        (writes_to_a_chosen_item, _CHOSEN),
        (writes_to_a_chosen_diagonal, _CHOSEN),
        (writes_to_what_no_iteration_changes, _CHOSEN),
        (writes_to_what_may_have_been_chosen, _CHOSEN),
        (takes_a_letter, _KEY),
        (takes_by_key, _KEY),
        (
            lists_in_a_list,
            "the script makes nested lists whose length depends on values: index the tensor instead",
        ),
        (unpacks, "the script unpacks a list whose length depends on values: take its items by index"),
        (unpacks_too_few, "the script unpacks 3 values from a list of 2"),
        (takes_what_is_not_there, "the script reads item 2 of a list of 2 items"),
        (asks_for_another_key, "the script reads the key 'b', which its dict does not have"),
        (goes_backwards, "a list whose length depends on values can be sliced backwards only with [::-1]"),
        (
            takes_out,
            "the script pops an item other than the last from a list whose length depends on values: pop the last one",
        ),
        (
            inserts,
            "the script inserts or deletes items in a list whose length depends on values: only append to it",
        ),
        (
            steps,
            "the step of a range depends on values, but loops in ONNX count by one: loop over the number of steps, and "
            "compute each index from it",
        ),
        (writes_words, "the script uses aten::str, which cannot be recorded: use operators on tensors"),
        (
            hands_over_a_list,
            "an operator takes a list whose length depends on values: only torch.cat, torch.stack, len, an index and "
            "a loop can take one",
        ),
        (
            hands_over_what_may_be_none,
            "an operator takes a value that may be None, depending on values: check it with `is not None` first",
        ),
        (
            chooses_between_kinds,
            "the branches of an `if` make lists, dicts or tuples of different structure: give them the same one",
        ),
        (
            grows_a_dict,
            "a loop carries a list, dict or tuple whose structure changes in an iteration: keep its structure",
        ),
        (divides_by_zero, "the script divides by zero"),
        (
            mixes_dtypes,
            "a list whose length depends on data has tensors of several dtypes: give all its tensors the same dtype, "
            "as ONNX requires",
        ),
        (
            appends_another_dtype,
            "a list of torch.float32 tensors gets one of torch.float64: give all its tensors the same dtype, as ONNX "
            "requires",
        ),
        (
            joins_other_ranks,
            "the script concatenates or stacks a list whose tensors differ in their number of axes: give all its "
            "tensors the same number of axes, or take them by index",
        ),
        (
            turns_round,
            "the script uses a list whose length depends on values and whose items may differ in size: only torch.cat, "
            "torch.stack, len, append, insert, pop, an index and a loop can be applied to it",
        ),
        (
            takes_from_nothing,
            "the script takes an item out of an empty list, or concatenates its items: do so only if it has items",
        ),
        (
            sets_in_a_branch,
            "the script gives a tensor other memory with set_: a model can only take another whole tensor for it, "
            "outside of branches and loops",
        ),
        (pops_from_nothing, "the script calls pop(-1) on a list of 0 items"),
        (
            returns_a_pair_or_none,
            "the script returns None or another value, depending on values: the other value has to be a tensor",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripts_that_cannot_be_recorded_are_refused(function: Callable[..., Any], message: str) -> None:
    script = torch.jit.script(function)
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(script, (X, N))
    words, _, place = str(caught.value).rpartition(" (at ")
    assert words == message
    assert place.startswith(f"{__file__}:")


class Forks(nn.Module):
    """Assigns to an attribute in a call that is forked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @torch.jit.export
    def counted(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counted: torch.Tensor = torch.jit.wait(torch.jit.fork(self.counted, x))
        return counted


class Writes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


def in_a_loop() -> nn.Module:
    """Calls a method by its interface, which writes in place."""

    @torch.jit.interface
    class Scaling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
            pass

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scaling = Writes()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            for _ in range(int(x.sum())):
                x = self.scaling.forward(x)
            return x

    Loop.__annotations__ = {"scaling": Scaling}
    return Loop()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            Forks,
            "the script assigns to an attribute of a module in a call that it forks with torch.jit.fork: assign to it "
            "outside of the call",
        ),
        (
            in_a_loop,
            "the script calls 'forward' of a module interface in a branch or a loop, and the method writes to tensors, "
            "lists or attributes: declare the attribute with the class of the module",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_calls_that_cannot_be_recorded_are_refused(made: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(torch.jit.script(made()), (X,))
    words, _, place = str(caught.value).rpartition(" (at ")
    assert words == message
    assert place.startswith(f"{__file__}:")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_calls_with_wrong_arguments_are_refused() -> None:
    @torch.jit.script
    def joined(x, y):  # type: ignore[no-untyped-def]
        return x + y

    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(joined, (X,))
    assert str(caught.value).startswith(f"joined() was called without its argument 'y' (at {__file__}:")
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(lambda x: joined(x, x, x), (X,))
    assert str(caught.value).startswith(f"joined() takes 2 arguments and was called with 3 (at {__file__}:")
