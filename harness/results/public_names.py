"""What there is to be covered: the public names of the installed PyTorch, its ATen operators, and ONNX's operators."""

from __future__ import annotations

import ast
import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from onnx_parity.harness.results.content import room_folder

if TYPE_CHECKING:
    from onnx_parity.harness.zoo import Source


class PublicName(msgspec.Struct, frozen=True):
    """A name, and if no case of a run has it, why that may be."""

    name: str
    why_not: str = ""
    #: Whether a program that calls it is recorded by other operators, which can be exported or not.
    as_others: bool = False
    #: Whether there is anything to be covered: a model can call it, and its package is here.
    counts: bool = True


class NameGroup(msgspec.Struct, frozen=True):
    """The names of one kind. `kind` is what a record has of them: `calls`, `aten`, `onnx`, `types` (an ONNX operator
    and the dtype of a cell), `opinfo` or `models` (the name of a declaration, or of a case of `harness.zoo.every`)."""

    title: str
    kind: str
    names: list[PublicName]


def names_for(run: Path) -> list[NameGroup]:
    """The names, which depend on the versions of packages alone. They are written to a file beside the runs, because
    importing torch and its database of operators takes as long as a report.
    """
    file = run.resolve().parent / f".names-{_versions()}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[NameGroup])
    except (OSError, msgspec.DecodeError):
        groups = list(_groups())
    aside = file.with_name(f"{file.name}-{os.getpid()}")
    try:
        aside.write_bytes(msgspec.json.encode(groups))
        aside.replace(file)
    except OSError:
        # Runs on a disk that cannot be written to are asked for their names each time.
        return groups
    return groups


def _versions() -> str:
    """A hash of the versions of the packages whose names are listed, and of this file, which lists them."""
    parts = [Path(__file__).read_text(encoding="utf-8")]
    for package in ("torch", "torchvision", "onnx", "timm", "transformers", "diffusers"):
        try:
            parts.append(version(package))
        except PackageNotFoundError:
            parts.append("")
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def _groups() -> Iterator[NameGroup]:
    import torch

    functional = torch.nn.functional
    yield _calls("torch.nn.functional", _functions(functional, lambda each: _is_function_of(each, functional.__name__)))
    yield _calls("torch.nn", (name for name, each in inspect.getmembers(torch.nn, inspect.isclass) if _is_module(each)))
    yield NameGroup("torch.Tensor", "calls", list(_methods()))
    yield _calls("torch", _functions(torch, inspect.isbuiltin))
    for place in (torch.linalg, torch.fft, torch.special):
        yield _calls(place.__name__, _functions(place, inspect.isbuiltin))
    yield from _aten()
    yield NameGroup("OpInfo entries", "opinfo", list(_opinfo()))
    yield NameGroup("Modules of module_db", "opinfo", list(_modules()))
    yield NameGroup("ONNX operators by version", "onnx", [PublicName(name) for name in _onnx()])
    yield NameGroup("ONNX operators by version and dtype of the cell", "types", [PublicName(name) for name in _types()])
    if models := list(_torchvision_models()):
        yield NameGroup("Models of torchvision", "models", [PublicName(name) for name in models])
    yield from _list_models()


def _calls(place: str, names: Iterable[str]) -> NameGroup:
    return NameGroup(place, "calls", [PublicName(f"{place}.{name}") for name in sorted(set(names))])


def _methods() -> Iterator[PublicName]:
    """The methods of tensors. Those that are no operators, such as `register_hook`, count where a case calls them."""
    import torch

    operators = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    why = "it is no operator: it is about a tensor in Python, its memory or its gradients"
    for name in sorted(set(_functions(torch.Tensor, callable))):
        named = f"torch.Tensor.{name}"
        yield PublicName(named) if name in operators else PublicName(named, why, counts=False)


def _functions(of: object, counts: Callable[[object], bool]) -> Iterator[str]:
    return (name for name in dir(of) if not name.startswith("_") and counts(getattr(of, name, None)))


def _is_function_of(each: object, module: str) -> bool:
    return inspect.isbuiltin(each) or (inspect.isfunction(each) and each.__module__ == module)


def _is_module(each: type) -> bool:
    import torch

    return issubclass(each, torch.nn.Module)


def _aten() -> Iterator[NameGroup]:
    """ATen's operators without their overloads: the core set, and all others that are public."""
    import torch

    from onnx_parity.exporter import lowered_operators

    lowered = {name.partition(".")[0] for name in lowered_operators()}
    core: set[str] = set()
    overloads: defaultdict[str, list[str]] = defaultdict(list)
    for qualified in torch._C._dispatch_get_all_op_names():
        name, _, overload = qualified.partition(".")
        if not name.startswith("aten::") or name.startswith("aten::_") or name.endswith("_backward"):
            continue
        overloads[name].append(qualified)
        found: Any = torch._C._get_operation_overload(name, overload)
        if found is not None and torch.Tag.core in found[2]:
            core.add(name)

    def group(title: str, wanted: set[str]) -> NameGroup:
        return NameGroup(title, "aten", [_untraced(name, overloads[name], lowered) for name in sorted(wanted)])

    yield group("ATen, core set", core)
    yield group("ATen, all others", overloads.keys() - core)


def _untraced(name: str, overloads: Sequence[str], lowered: set[str]) -> PublicName:
    """An operator, and why no cell may have traced it."""
    if name in lowered:
        return PublicName(name, "it has a lowering, which no case reached")
    if name.endswith(("_", "_copy")):
        return PublicName(name, "in-place writes and copies of views are recorded as other operators", as_others=True)
    if name.startswith("aten::sym_"):
        return PublicName(name, "sizes are part of the recording", as_others=True)
    if _is_decomposed(name, overloads):
        return PublicName(name, "it is recorded as the operators that it consists of", as_others=True)
    if name.removeprefix("aten::").startswith(("cudnn_", "miopen_", "mkldnn_")):
        return PublicName(name, "programs reach this kernel of a library by other operators", as_others=True)
    return PublicName(name, "it has neither a lowering nor a decomposition")


def _is_decomposed(name: str, overloads: Sequence[str]) -> bool:
    """Whether torch or a rule of the exporter takes an operator apart."""
    import torch

    if any(torch._C._dispatch_has_kernel_for_dispatch_key(each, "CompositeImplicitAutograd") for each in overloads):
        return True
    return not _taken_apart().isdisjoint({name, *overloads})


@cache
def _taken_apart() -> frozenset[str]:
    import torch
    from torch._decomp import decomposition_table

    from onnx_parity.exporter.registry.rules import all_rules

    by_torch = (each.name() for each in decomposition_table if isinstance(each, torch._ops.OpOverload))
    return frozenset(by_torch).union(rule.name for rule in all_rules())


def _opinfo() -> Iterator[PublicName]:
    """The entries of torch's database of operators, and why those that no declaration may name are left out."""
    from onnx_parity.harness.cases.opinfo_entries import EXCLUDED
    from onnx_parity.harness.cases.opinfo_samples import all_entries

    for name in sorted(all_entries()):
        yield PublicName(name, EXCLUDED.get(name, ""))


def _modules() -> Iterator[PublicName]:
    """The entries of torch's database of modules."""
    from onnx_parity.harness.cases.opinfo_samples import all_modules

    return (PublicName(name) for name in sorted(all_modules()))


def _schemas() -> list[Any]:
    import onnx.defs

    found = onnx.defs.get_all_schemas_with_history()
    listed = [schema for schema in found if not schema.domain and not schema.deprecated]
    return sorted(listed, key=lambda schema: (schema.name, schema.since_version))


def _onnx() -> Iterator[str]:
    return (f"{schema.name}@{schema.since_version}" for schema in _schemas())


#: ONNX's names of types that are dtypes of cells.
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    **{f"tensor({name})": name for name in ("int64", "int32", "int16", "int8", "uint8", "bool")},
}


def _types() -> Iterator[str]:
    """Every version of an operator with each dtype that its first input may have."""
    for schema in _schemas():
        first = schema.inputs[0] if schema.inputs else None
        for kind in sorted(first.types & _DTYPES.keys(), key=list(_DTYPES).index) if first is not None else ():
            yield f"{schema.name}@{schema.since_version} {_DTYPES[kind]}"


def _list_models() -> Iterator[NameGroup]:
    """The models that other packages list, as declarations of `model_zoo` take them from there."""
    from onnx_parity.harness.zoo import Source

    for file in sorted(room_folder("model_zoo").glob("all_of_*.py")):
        if file.stem != "all_of_torchvision":
            for name, source in vars(import_module(f"onnx_parity.model_zoo.{file.stem}")).items():
                if isinstance(source, Source):
                    kind = name.rpartition("_")[2].capitalize()
                    yield NameGroup(f"{kind} of {source.package}", "models", _models_of(name, source))


def _models_of(name: str, source: Source) -> list[PublicName]:
    from onnx_parity.harness.zoo import CannotBuildError

    try:
        return [PublicName(f"{name}[{model}]") for model in source.listed()]
    except CannotBuildError as error:
        return [PublicName(name, str(error), counts=False)]


def _torchvision_models() -> Iterator[str]:
    """The names under which torchvision registers its models, from its source: it does not load beside any torch."""
    spec = find_spec("torchvision")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in sorted((Path(folder) / "models").rglob("*.py")):
            for node in ast.parse(file.read_bytes()).body:
                if isinstance(node, ast.FunctionDef):
                    yield from filter(None, (_registered_as(node.name, each) for each in node.decorator_list))


def _registered_as(function: str, decorator: ast.expr) -> str:
    """The name of the model that `@register_model()` or `@register_model(name="...")` registers; empty for others."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name):
        return ""
    if decorator.func.id != "register_model":
        return ""
    given = [each.value.value for each in decorator.keywords if isinstance(each.value, ast.Constant)]
    return str(given[0]) if given else function
