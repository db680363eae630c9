"""Steps on attributes, optional values, enums and objects, and those that raise, print, or call Python."""

from __future__ import annotations

from typing import Any

from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import UNSET
from onnx_parity.exporter.script.module_attributes import ModuleAttributes
from onnx_parity.exporter.script.numbers import compute
from onnx_parity.exporter.script.operator_arguments import from_python, to_python
from onnx_parity.exporter.script.parse import ASSIGNED_ATTRIBUTE, Step
from onnx_parity.exporter.script.steps import step_of
from onnx_parity.exporter.script.values import Instance, Maybe

__all__: list[str] = []


@step_of("prim::GetAttr")
def _get_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    owner = arguments[0]
    if isinstance(owner, Instance):
        return owner.attributes[step.name]
    return ModuleAttributes.of(blocks).read(owner, step.name)


@step_of("prim::ModuleContainerIndex")
def _select_module(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    """One of the modules of a list or a dict, whose common interface the script declares."""
    owner, key = arguments
    if not isinstance(key, (int, str)):
        raise blocks.error(
            "the script selects a module of a list or a dict by a value that is not known at export: select it by a "
            "number or a name that is, or call each of them in a branch of its own"
        )
    if not owner.module.hasattr(str(key)):
        raise blocks.error(f"the script selects the module {key!r} of a list or a dict that does not have it")
    return ModuleAttributes.of(blocks).read(owner, str(key))


@step_of(ASSIGNED_ATTRIBUTE)
def _get_assigned_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> Instance:
    return ModuleAttributes.of(blocks).assigned(arguments[0], step.name)


@step_of("prim::SetAttr")
def _set_attribute(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    owner, value = arguments
    if not isinstance(owner, Instance):
        raise blocks.error(
            f"the script assigns to the attribute {step.name!r} of a module that it selected by values: assign to an "
            "attribute of a module that is known at export"
        )
    owner.attributes[step.name] = value


@step_of("prim::EnumName", "prim::EnumValue")
def _read_enum(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return from_python(getattr(arguments[0], step.kind.removeprefix("prim::Enum").lower()))


@step_of("prim::CreateObject")
def _create(blocks: Blocks, step: Step, arguments: list[Any]) -> Instance:
    return Instance()


@step_of("prim::Uninitialized")
def _leave_unset(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return UNSET


@step_of("prim::unchecked_cast", "aten::_unwrap_optional", "prim::unchecked_unwrap_optional")
def _unwrap(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    return arguments[0].value if isinstance(arguments[0], Maybe) else arguments[0]


@step_of("aten::__is__", "aten::__isnot__")
def _is(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    one, other = arguments
    maybe = one if isinstance(one, Maybe) else other
    if isinstance(maybe, Maybe) and (one is None or other is None):
        return compute(blocks, "__not__", [maybe.present], "bool") if step.kind == "aten::__is__" else maybe.present
    return (one is other) is (step.kind == "aten::__is__")


@step_of("prim::RaiseException")
def _raise(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    raise blocks.error(f"the script raises an exception: {arguments[0]}")


@step_of("prim::Print", "aten::warn")
def _print(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    return None


@step_of("prim::PythonOp")
def _call_python(blocks: Blocks, step: Step, arguments: list[Any]) -> Any:
    origins = blocks.recorder.origins
    origins.step = None
    return from_python(step.node.pyobj()(*map(to_python, arguments)))  # type: ignore[attr-defined]


@step_of("prim::Enter", "prim::Exit")
def _enter_context(blocks: Blocks, step: Step, arguments: list[Any]) -> None:
    """Ignore torch's own contexts (no_grad, profiling), since they have no effect on the exported model."""
    kind = str(next(step.node.inputs()).type().annotation_str)
    if not kind.startswith("__torch__.torch."):
        raise blocks.error(
            f"the script enters a `with` of the class {kind.rpartition('.')[2]}, whose __enter__ and __exit__ are not "
            "recorded: call its methods without `with`"
        )
