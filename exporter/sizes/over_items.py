"""Functions of `functools` and `itertools` that go over as many items as a dynamic size says.

Each takes Python's place in the program's code (see `python_functions.py`), and differs from it where one of the values
has such items.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from onnx_parity.exporter.sizes.looped import Items, applied, behind_first, items_in, product_of, zipped
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["OVER_ITEMS"]

asks_for_its_caller(__file__)


def _reduce(function: Callable[[Any, Any], Any], values: Any, /, *initial: Any) -> Any:
    items = items_in(values)
    if items is None:
        return functools.reduce(function, values, *initial)
    return (
        Items.folded(function, behind_first(items), items.item(0))
        if not initial
        else Items.folded(function, items, initial[0])
    )


def _accumulate(values: Any, func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None) -> Any:
    items = items_in(values)
    if items is None:
        return itertools.accumulate(values, func, initial=initial)
    function = operator.add if func is None else func
    if initial is None:
        return Items.accumulated(function, behind_first(items), items.item(0))
    return Items.accumulated(function, items, initial)


def _chain(*several: Any) -> Any:
    if all(items_in(each) is None for each in several):
        return itertools.chain(*several)
    made: Any = []
    for each in several:
        items = items_in(each)
        made = made + ([*each] if items is None else Items.as_list(items))
    return made


def _islice(values: Any, /, *limits: Any) -> Any:
    items = items_in(values)
    return itertools.islice(values, *limits) if items is None else Items.as_list(items)[slice(*limits)]


def _pairwise(values: Any, /) -> Any:
    items = items_in(values)
    return itertools.pairwise(values) if items is None else zipped([items, behind_first(items)])


def _starmap(function: Callable[..., Any], values: Any, /) -> Any:
    items = items_in(values)
    return itertools.starmap(function, values) if items is None else applied(lambda item: function(*item), items)


def _product(*several: Any, repeat: int = 1) -> Any:
    found = [items_in(each) for each in several]
    if all(items is None for items in found):
        return itertools.product(*several, repeat=repeat)
    lists = [[*each] for each, items in zip(several, found, strict=True) if items is None]
    if not all(lists):
        return []
    known = map(Items.known, lists)
    return product_of([next(known) if items is None else items for items in found] * repeat)


def _named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {each.__name__.removeprefix("_"): each for each in functions}


#: The functions, by the modules that have Python's, and by their names.
OVER_ITEMS: dict[ModuleType, Mapping[str, Callable[..., Any]]] = {
    functools: _named(_reduce),
    itertools: _named(_accumulate, _chain, _islice, _pairwise, _starmap, _product),
}
