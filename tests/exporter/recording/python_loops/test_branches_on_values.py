"""Plain branches of Python on values, of which the model has both sides."""

from __future__ import annotations

import copy
import math
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnx_parity
from onnx_parity.exporter.verification.trials import other_sides
from tests.thinned import one_in

AXES = ({0: "rows"},)


def returned_early(x: Tensor) -> Tensor:
    if x.sum() > 4:
        return x * 2
    if x.max() > 1:
        return x + 5
    return x - 1


def within_each_other(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x.exp() if x.max() > 2 else x.cos()
    elif x.min() < -2:
        y = x.sin()
    else:
        y = x
    return y * 2


def of_several_conditions(x: Tensor) -> Tensor:
    if (x.sum() > 0 and not x.max() > 2) or x.min() < -1.5:
        return x + 1
    return x * 3


def read_as_numbers(x: Tensor) -> Tensor:
    if x[0, 0].item() > 0.1:  # The float32 next to it is greater.
        x = x / 2
    if int(x.max()) > 1:
        x = x * 4
    return x * 3 if bool(x.sum().round()) else x


def by_functions_of_torch(x: Tensor) -> Tensor:
    if torch.isnan(x).any():
        x = torch.nan_to_num(x, nan=0.0)
    if torch.allclose(x, torch.zeros_like(x), atol=0.3):
        x = x + 5
    if torch.equal(x[0], x[1]):
        x = x + 7
    return x.log() if (x > 0).all() else x


def matched(x: Tensor) -> Tensor:
    match int(x[0, 0]):
        case 0:
            return x
        case 1:
            return x * 2
        case number if number > 3:
            return x * 3
        case _:
            return x * 4


def written_on_one_side(x: Tensor) -> Tensor:
    y, parts = x.clone(), {"sums": x.sum(0)}
    if x.sum() > 0:
        y += 1
        y[0] = 3
        parts["sums"] = y.sum(0)
    return y * parts["sums"]


def longer_list(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return torch.cat(parts)


def of_other_sizes(x: Tensor) -> Tensor:
    kept = x[x[:, 0] > 0]
    if len(kept) > 1:
        return kept
    return x[:1] * 0


def size_that_a_branch_decides(x: Tensor) -> Tensor:
    if x.sum() > 0:
        x = x[:2]
    if x.shape[0] > 2:
        return x.sum(0)
    return x.sum(0) * 2


def number_that_a_branch_decides(x: Tensor) -> Tensor:
    n, scale = (1, 0.5) if x.sum() > 0 else (2, 3.0)
    for i in range(n):
        x = x * scale + i
    return x[:n].sum(0)


def number_that_is_a_key(x: Tensor) -> Tensor:
    n = 1 if x.max() > 1 else 2
    return {1: x, 2: x * 5}[n].sum(n - 1, keepdim=True)


def text_that_a_branch_decides(x: Tensor) -> Tensor:
    mode = "up" if x.sum() > 0 else "down"
    return {"up": x + 1, "down": x - 1}[mode]


def flag_that_is_the_object(x: Tensor) -> Tensor:
    found: Any = False
    if x.max() > 1:
        found = True
    y = x * 2 if found is True else x
    return y + 1 if isinstance(found, bool) else y


def none_on_one_side(x: Tensor) -> Tensor:
    mask = None if (x > 0).all() else x > 0
    return x + 1 if mask is None else x.masked_fill(~mask, 0.5)


def caught_error(x: Tensor) -> Tensor:
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        return x.sqrt()
    except ValueError:
        return x.abs()


def _scaled(x: Tensor, limit: float) -> Tensor:
    greatest = x.abs().max()
    return x / greatest if greatest > limit else x


def in_called_functions(x: Tensor) -> Tensor:
    def shifted(y: Tensor) -> Tensor:
        return y - x if y.sum() > x.mean() else y + x

    return _scaled(x, 1.0) + _scaled(shifted(x * 2), 2.0)


def in_a_comprehension(x: Tensor) -> Tensor:
    return torch.stack([row * 2 if row.sum() > 0 else -row for row in x[:2]])


def error_of_a_called_function(x: Tensor) -> Tensor:
    def checked(y: Tensor) -> Tensor:
        if y.sum() <= 0:
            raise ValueError("negative")
        return y * 2

    try:
        return checked(x)
    except ValueError:
        return x.abs()


def none_of_a_called_function(x: Tensor) -> Tensor:
    def found(y: Tensor) -> Tensor | None:
        if y.sum() > 0:
            return y * 2
        return None

    y = found(x)
    return x if y is None else y


def in_a_generator(x: Tensor) -> Tensor:
    def rows() -> Iterator[Tensor]:
        for row in x[:2]:
            if row.sum() > 0:
                yield row
            else:
                yield -row

    return torch.stack(list(rows()))


def asked_by_functions_of_python(x: Tensor) -> Tensor:
    first, last = sorted([x[0], x[1]], key=lambda row: row.sum())
    return torch.stack([first, last, max(x[0], x[1], key=lambda row: row[0])]) * max(x.sum(), x.mean())


def kept_by_scores(x: Tensor) -> Tensor:
    scores, kept = x[:, 0], []
    order = scores.argsort(descending=True)
    for i in range(2):
        if scores[order[i]] > 0.1:
            kept.append(order[i])
    return x[torch.stack(kept)] if len(kept) > 0 else x[:0]


def in_a_loop_of_known_length(x: Tensor) -> Tensor:
    for i in range(12):
        if x.sum() > i:
            x = x * 0.75
            if x.max() > 2:
                x = x - 1
        elif i % 2:
            continue
        x = x + 0.125
    return x


def beside_a_loop_by_values(x: Tensor) -> tuple[Tensor, int]:
    steps = 0
    if x.sum() > 0:
        x = x + 1
    while x.abs().sum() > 1:
        x = x * 0.5
        steps += 1
    return x, steps


def converged(x: Tensor) -> Tensor:
    for _ in range(5):
        new = x * 0.5
        if (new - x).abs().max() < 0.1:
            return new
        x = new
    return x


def written_through_a_view(x: Tensor) -> tuple[Tensor, Tensor]:
    def doubled(y: Tensor, decides: Tensor) -> Tensor:
        if decides > 0:
            z = y.view(-1)
            z.mul_(2)
            y = y * 5
        return y

    y = x * 1
    return doubled(y, x.sum()), y


def computed_once(x: Tensor) -> Tensor:
    """What is computed between two questions is computed in one place."""
    if x.sum() > 50:
        return x
    x = x.sin()
    if x.sum() > 2:
        return x
    x = x.cos()
    if x.sum() > 3:
        return x
    return x.tanh()


class Counter:
    def __init__(self) -> None:
        self.count, self.is_large = 0, False
        self.last: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        self.is_large = False
        if x.sum() > 4:
            self.count, self.is_large = 7, True
            self.last = x * 2
        else:
            self.last = x
        return self.last * self.count + (1 if self.is_large else 2)


class Exits(nn.Module):
    """A network that ends as soon as it is sure, and one of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.heads = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
            if x.abs().max() < 0.7:
                break
        return torch.as_tensor(self.heads[0](x) if x.mean() > 0 else self.heads[1](x))


PROGRAMS: list[Callable[[Tensor], Any]] = [
    returned_early,
    within_each_other,
    of_several_conditions,
    read_as_numbers,
    by_functions_of_torch,
    matched,
    written_on_one_side,
    longer_list,
    of_other_sizes,
    size_that_a_branch_decides,
    number_that_a_branch_decides,
    number_that_is_a_key,
    text_that_a_branch_decides,
    flag_that_is_the_object,
    none_on_one_side,
    caught_error,
    in_called_functions,
    in_a_comprehension,
    error_of_a_called_function,
    none_of_a_called_function,
    in_a_generator,
    asked_by_functions_of_python,
    kept_by_scores,
    in_a_loop_of_known_length,
    beside_a_loop_by_values,
    converged,
    written_through_a_view,
    computed_once,
    Counter(),
    Exits(),
]


def _inputs(rows: int) -> list[Tensor]:
    found = [torch.randn(rows, 4) * scale for scale in (0.1, 0.5, 1, 1, 1, 3, 3, 10)]
    found += [torch.ones(rows, 4), -torch.ones(rows, 4), torch.full((rows, 4), 0.1), torch.zeros(rows, 4)]
    for number in (1.0, 2.5, 4.5, math.nan):
        changed = torch.randn(rows, 4)
        changed[0, 0] = number
        found.append(changed)
    return found


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
@pytest.mark.parametrize("dynamic", [None, AXES], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "program", one_in(3, PROGRAMS), ids=lambda program: getattr(program, "__name__", type(program).__name__)
)
def test_a_model_is_right_on_both_sides(program: Callable[[Tensor], Any], dynamic: Any) -> None:
    torch.manual_seed(0)
    for example in (torch.ones(3, 4), -0.5 * torch.ones(3, 4)):
        made = onnx_parity.export(copy.deepcopy(program), (example,), dynamic_shapes=dynamic, strict=True)
        assert made.assumptions == ()
        for rows in (3,) if dynamic is None else (2, 3, 7):
            for x in _inputs(rows):
                if x.isnan().any() and program in (beside_a_loop_by_values, read_as_numbers, matched):
                    continue  # It does not end, or makes a whole number of it.
                expected = copy.deepcopy(program)(x.clone())
                torch.testing.assert_close(made(x.clone()), expected, equal_nan=True, rtol=1e-4, atol=1e-5)


def filled_on_each_side(x: Tensor) -> tuple[Any, ...]:
    listed: list[Tensor] = []
    named = {"first": x}
    grouped: defaultdict[str, list[Tensor]] = defaultdict(list)
    ordered: OrderedDict[int, dict[str, Tensor]] = OrderedDict()
    for row in range(3):
        if x[row].sum() > 1:
            listed.append(x[row] * row)
            named[f"row {row}"] = x[row]
            grouped["all"].append(x[row].mean())
            ordered[row] = {"of": x[row]}
        else:
            listed += [torch.zeros(4)]
            named.update({f"row {row}": -x[row]})
            grouped["all"].append(torch.ones(()))
            ordered[row] = {"of": x[row] + 1}
    return listed, named, torch.stack(grouped["all"]), ordered[0]["of"], ordered[2]["of"]


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
@pytest.mark.parametrize("dynamic", [None, AXES], ids=["static", "dynamic"])
def test_both_sides_add_as_many_items_to_containers(dynamic: Any) -> None:
    example = torch.tensor([[1.0, 2, 3, 4], [-1, -2, -3, -4], [0, 0, 0, 0]])
    made = onnx_parity.export(filled_on_each_side, (example,), dynamic_shapes=dynamic, strict=True)
    assert made.assumptions == ()
    for x in _inputs(3):
        torch.testing.assert_close(made(x), filled_on_each_side(x), equal_nan=True)


def named_by_what_was_found(x: Tensor) -> Tensor:
    found: dict[str, Tensor] = {}
    if x.sum() > 1:
        found["large"] = x * 2
    else:
        found["small"], found["other"] = x, x + 1
    return found.popitem()[1]


def test_sides_that_add_other_items_are_not_joined() -> None:
    with pytest.warns(onnx_parity.TracerWarning, match="turned a tensor into a Python value"):
        made = onnx_parity.export(named_by_what_was_found, (torch.ones(3, 4),))
    torch.testing.assert_close(made(torch.ones(3, 4)), named_by_what_was_found(torch.ones(3, 4)))
    with pytest.raises(onnx_parity.AssumptionError):
        made(-torch.ones(3, 4))


def differences_of_chosen(x: Tensor) -> Tensor:
    chosen = x[x[:, 0] > 0]
    return chosen.unfold(0, 2, 1).diff(dim=-1) if chosen.shape[0] > 1 else chosen.unsqueeze(-1)


@pytest.mark.parametrize("positive", [0, 1, 2, 3])
def test_what_torch_checks_on_one_side_is_not_known_on_the_other(positive: int) -> None:
    """Windows of two rows are only made where there are two rows."""

    def rows(count: int, positive: int) -> Tensor:
        return torch.where(torch.arange(count)[:, None] < positive, 1.0, -1.0) * (torch.rand(count, 2) + 1)

    exported = onnx_parity.export(differences_of_chosen, (rows(3, positive),), dynamic_shapes=AXES, strict=True)
    for count, number in ((1, 0), (1, 1), (3, 1), (3, 2), (5, 5)):
        x = rows(count, number)
        torch.testing.assert_close(exported(x), differences_of_chosen(x))


def test_what_is_computed_between_two_questions_is_computed_in_one_place() -> None:
    made = onnx_parity.export(computed_once, (torch.ones(3, 4),))
    operators = [node.op_type for node in made.model.graph.all_nodes()]
    assert [operators.count(name) for name in ("Sin", "Cos", "Tanh", "If")] == [1, 1, 1, 3]


def test_others_have_both_sides_beside_it() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2 if x.max() > 5 else x + 1
        return y if x.sum() > 0 else y.long()

    with pytest.warns(onnx_parity.TracerWarning):
        made = onnx_parity.export(program, (torch.ones(3, 4),))
    assert len(made.assumptions) == 1
    for x in (torch.ones(3, 4), torch.ones(3, 4) * 7):
        torch.testing.assert_close(made(x), program(x))


@pytest.mark.filterwarnings("error::onnx_parity.TracerWarning")
def test_what_makes_no_difference_makes_no_branch() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2 if x.sum() > 0 else 2 * x
        assert x.max() < 1000
        return y

    made = onnx_parity.export(program, (torch.ones(3, 4),), strict=True)
    assert [node.op_type for node in made.model.graph] == ["Mul"]


def test_what_the_caller_states_leaves_one_side() -> None:
    made = onnx_parity.export(returned_early, (torch.ones(3, 4),), assume=["x.sum() > 4"], strict=True)
    assert [each.condition for each in made.assumptions] == ["x.sum() > 4"]
    assert "If" not in {node.op_type for node in made.model.graph}


@pytest.mark.parametrize("opset", [7, 10, 11, 13])
def test_older_opsets(opset: int) -> None:
    """Before opset 11, both sides have one shape."""
    x = torch.ones(3, 4)
    made = onnx_parity.export(returned_early, (x,), opset_version=opset, strict=True)
    for given in (x, -x, x * 0.1):
        torch.testing.assert_close(made(given), returned_early(given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_parity.TracerWarning)
        made = onnx_parity.export(lambda x: x[:2] if x.sum() > 4 else x, (x,), opset_version=opset)
    assert bool(made.assumptions) == (opset < 11)


def kind(x: Tensor) -> Tensor:
    if x.abs().max() > 50:
        return x / 2
    if torch.isnan(x).any():
        return torch.zeros_like(x)
    return x * 2


def test_verification_takes_both_sides() -> None:
    made = onnx_parity.export(kind, (torch.rand(3, 4),), verify=True)
    taken = [torch.cat(trial.tensors()) for trial in other_sides(made.source)]
    assert [bool(x.abs().max() > 50) for x in taken].count(True) == 1
    assert [bool(x.isnan().any()) for x in taken].count(True) == 1


def test_verification_finds_a_side_that_is_wrong() -> None:
    made = onnx_parity.export(kind, (torch.rand(3, 4),))
    (half,) = (each for each in made.model.graph.all_nodes() if each.op_type == "Div")
    half.op_type = "Mul"
    with pytest.raises(onnx_parity.VerificationError, match="for values with which the program takes another branch"):
        made.verify()
