"""One model of each of timm's families: the smallest, as far as its name tells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from onnx_parity.harness.case import floats
from onnx_parity.harness.zoo import Built, every, first_that_runs

#: Parts of the names of small models, the smallest first.
_SMALL = (
    "test_", "atto", "femto", "pico", "nano", "xxt", "tiny", "xxs", "_xs", "_t0", "_050", "_s0", "_b0", "mini", "_s_",
    "small", "_t_", "_b1", "_s", "lite", "_12", "18", "26", "_b",
)  # fmt: skip

#: Images with longer sides take minutes in float64, so that smaller ones are tried first.
_LARGE = 448


def _timm() -> Any:
    # timm imports torchvision, which has to be imported in a certain way beside some builds of torch.
    import_module("onnx_parity.model_zoo.torchvision_import")
    return import_module("timm")


@cache
def _names() -> Sequence[str]:
    timm = _timm()
    return [min(timm.list_models(module=family), key=_size) for family in timm.list_modules()]


def _size(name: str) -> tuple[int, int, str]:
    rank = next((place for place, part in enumerate(_SMALL) if part in f"{name}_"), len(_SMALL))
    return rank, len(name), name


def _build(name: str) -> Built:
    module = _timm().create_model(name)
    own = module.default_cfg["input_size"]
    least = module.default_cfg.get("min_input_size") or own
    sizes = [tuple(least), (own[0], 64, 64), tuple(own)]
    if least[1] > _LARGE:
        sizes[:1] = [(own[0], 224, 224)]
    module, inputs = first_that_runs((module, {"x": floats(2, *size)}) for size in dict.fromkeys(sizes))
    return Built(module, inputs, {"batch": (1, 3)})


timm_models = every(
    "timm", _names, _build, extra="zoo", few=("test_vit", "test_efficientnet"), dynamic={"x": {0: "batch"}}
)
