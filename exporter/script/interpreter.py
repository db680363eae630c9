"""Runs a TorchScript graph step by step while a program is recorded.

Constants, sizes, lists and loops over them are evaluated. A branch or a loop that depends on values is recorded as one
node with its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.kinds.quantized import Quantized, call_quantized
from onnx_parity.exporter.recording.blocks import SEEN_TWICE, Blocks, Iteration, UnlikeItems
from onnx_parity.exporter.recording.leaves import Leaf, is_number, share_memory
from onnx_parity.exporter.script.block_captures import Outside
from onnx_parity.exporter.script.numbers import DTYPES, NUMERIC, compute, convert, depends_on_values
from onnx_parity.exporter.script.operator_arguments import (
    DTYPE_OF_NUMBER,
    MEMORY_FORMATS,
    Part,
    arguments_of,
    from_python,
    split_arguments,
)
from onnx_parity.exporter.script.parse import Body, Operator, Script, Step, parse, writes_to_container
from onnx_parity.exporter.script.results import results_in_python
from onnx_parity.exporter.script.steps import step_function
from onnx_parity.exporter.script.tensors_of_the_caller import watch, watch_replaced
from onnx_parity.exporter.script.unknown_numbers import call_with_unknown_numbers
from onnx_parity.exporter.script.values import (
    Form,
    Maybe,
    ScriptList,
    as_sequence,
    as_stack,
    form_of,
    join_forms,
    leaves_of,
    make_value,
    put_back,
    stacks,
)
from onnx_parity.exporter.sizes.copies import MAY_COPY
from onnx_parity.exporter.sizes.layouts import order_of
from onnx_parity.exporter.torch_inside.dispatcher import schema_of
from onnx_parity.exporter.torch_inside.modes import without_function_overrides
from onnx_parity.exporter.torch_inside.pytree import tree_leaves
from onnx_parity.exporter.torch_inside.torchscript import method_of

__all__ = ["run_script"]

#: A loop with a known number of at most this many iterations is unrolled.
UNROLLED = 32
_NO_END = 2**63 - 1
#: What reads the shape of a tensor.
_OF_SHAPES = frozenset({"aten::size", "aten::dim", "aten::stride", "aten::numel", "aten::len"})
_TAKING_OUT = frozenset({"aten::__getitem__", "aten::pop"})
#: What is recorded as a new tensor if one of its numbers depends on values, though otherwise it is a view.
_CHOOSING = frozenset({*_TAKING_OUT, "aten::diagonal"})


def run_script(blocks: Blocks, callee: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Record a call of a compiled function or method, and return its result."""
    interpreter = Interpreter(blocks)
    origins = blocks.recorder.origins
    outer = origins.step
    try:
        return interpreter.call(callee, args, kwargs)
    finally:
        origins.step = outer


class _OtherForm(Exception):
    """The structure of the values that a loop carries has changed after an iteration."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form


class Interpreter:
    """Interprets one call of a script."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        #: Whether there may be quantized tensors.
        self._quantizes = False
        self._uses: Mapping[int, int] = {}
        #: The values outside of branches and loops.
        self._variables: dict[int, Any] = {}
        self._script: Script | None = None
        #: Values that are new tensors in the model, but in the script may be others.
        self._chosen: list[Any] = []
        self._given: Sequence[Any] = ()

    def call(self, callee: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        script = parse(callee)
        given = _bind(callee, args, kwargs)
        self._given = list(map(from_python, given))
        results = self._results(script, self._given)
        outputs = results_in_python(self.blocks, results, [value.type() for value in script.graph.outputs()])
        if self._chosen and not self.blocks.recorder.of_script:
            values = [*script.graph.inputs(), *script.graph.outputs()]
            watch(self.blocks.recorder, script.aliases, self._chosen, zip(values, [*given, *outputs], strict=True))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _results(self, script: Script, arguments: Sequence[Any]) -> list[Any]:
        self._uses, self._script = script.uses, script
        self._quantizes = script.quantizes or any(isinstance(given, Quantized) for given in arguments)
        env = dict(zip(script.body.inputs, arguments, strict=True))
        env.update({number: from_python(constant) for number, constant in script.constants.items()})
        self._variables = env
        self._run(script.body, env)
        return [env[number] for number in script.body.outputs]

    # --- steps ----------------------------------------------------------------------------------------------------

    def _run(self, body: Body, env: dict[int, Any]) -> None:
        origins = self.blocks.recorder.origins
        for step in body.steps:
            origins.step = step
            if step.kind == "prim::If":
                results = self._branch(step, env)
            elif step.kind == "prim::Loop":
                results = self._loop(step, env)
            elif step.kind == "aten::set_":
                results = [self._set(step, env)]
            elif step.kind == "prim::CallMethod":
                results = self._call_of_interface(step, env)
            else:
                arguments = [env[number] for number in step.inputs]
                result = self._step(step, arguments)
                if step.kind in _CHOOSING:
                    self._refuse_writes_to(step, arguments)
                results = result if len(step.outputs) > 1 else [result]
            env.update(zip(step.outputs, results, strict=False))

    def _set(self, step: Step, env: dict[int, Any]) -> Any:
        """From now on a variable is another tensor."""
        target, *source = (env[number] for number in step.inputs)
        if len(source) != 1 or env is not self._variables or not isinstance(source[0], torch.Tensor):
            raise self.blocks.error(
                "the script gives a tensor other memory with set_: a model can only take another whole tensor for it, "
                "outside of branches and loops"
            )
        if not self.blocks.recorder.of_script and any(target is each for each in tree_leaves(self._given)):
            watch_replaced(self.blocks.recorder, target)
        env.update({number: source[0] for number, value in env.items() if value is target})
        return source[0]

    def _call_of_interface(self, step: Step, env: dict[int, Any]) -> Sequence[Any]:
        """Call a method of an attribute that is declared as a module interface: only its value tells the class."""
        owner, *arguments = (env[number] for number in step.inputs)
        if not isinstance(owner, Part):
            raise self.blocks.error(
                f"the script calls {step.name!r} of an interface that a class implements: declare the value with the "
                "class itself"
            )
        script = parse(method_of(owner.module, step.name))
        if script.body.writes and env is not self._variables:
            raise self.blocks.error(
                f"the script calls {step.name!r} of a module interface in a branch or a loop, and the method writes to "
                "tensors, lists or attributes: declare the attribute with the class of the module"
            )
        return Interpreter(self.blocks)._results(script, [owner, *arguments])

    def _refuse_writes_to(self, step: Step, arguments: Sequence[Any]) -> None:
        """Refuse writes to what is recorded as a new tensor, though in the script it is an item or a view."""
        assert self._script is not None
        source = arguments[0]
        # An item of a list of the graph is a copy, so the list would not change.
        of_sequence = isinstance(source, ScriptList) and source.sequence is not None
        if of_sequence and step.kind in _TAKING_OUT and step.outputs[0] in self._script.body.written:
            raise self.blocks.error(
                "the script writes in place to an item of a list whose length depends on values: write to a clone, and "
                "assign that to the list"
            )
        # An item of a list that is one tensor is a view of it.
        is_view = isinstance(source, ScriptList) and not source.is_known
        if not is_view and any(map(depends_on_values, arguments[1:])):
            self._refuse_seen_elsewhere(step)

    def _refuse_seen_elsewhere(self, step: Step) -> None:
        """Refuse writes that the script reads in another tensor, which is the same one only in the script."""
        assert self._script is not None
        self._chosen += step.node.outputs()
        for output in step.node.outputs() if self._script.body.written else ():
            if self._script.is_seen_elsewhere(output):
                raise self.blocks.error(
                    "the script writes in place to a tensor that is chosen by a branch, a loop or a number that "
                    "depends on values, and reads the same memory under another name: write to a clone"
                )

    def _step(self, step: Step, arguments: list[Any]) -> Any:
        if step.kind in _OF_SHAPES:
            self.blocks.refuse_any_rank(arguments[0])
        handler = step_function(step.kind)
        if handler is not None:
            result = handler(self.blocks, step, arguments)
            if result is not NotImplemented:
                return result
        if step.operator is not None:
            return self._operate(step.operator, arguments)
        if step.kind in NUMERIC:
            return compute(self.blocks, step.kind.partition("::")[2], arguments, step.returns)
        if (
            step.kind.startswith("aten::")
            and step.kind != "aten::str"
            and not writes_to_container(step)
            and all(map(_is_plain, arguments))
        ):
            # The operation is on numbers and strings, and TorchScript computes it.
            function = getattr(torch.ops.aten, step.kind.removeprefix("aten::"))
            return from_python(function(*map(self._as_argument, arguments)))
        raise self.blocks.error(f"the script uses {step.kind}, which cannot be recorded: use operators on tensors")

    def _operate(self, operator: Operator, arguments: list[Any]) -> Any:
        """Call an operator of torch's dispatcher."""
        values = [self._as_argument(value) for value in arguments]
        numbers = (
            number
            for parameter, value in zip(operator.parameters, values, strict=False)
            if not parameter.takes_tensor
            for number in (value if isinstance(value, list) else [value])
        )
        has_unknown = any(map(depends_on_values, numbers))
        if self._quantizes or has_unknown:
            with without_function_overrides():
                result = self._call_quantized(operator, values) if self._quantizes else NotImplemented
                if has_unknown and result is NotImplemented:
                    result = call_with_unknown_numbers(self.blocks, operator, values)
            if result is not NotImplemented:
                return from_python(result)
        operator, prepared = arguments_of(self.blocks, operator, values)
        positional, named = split_arguments(operator, prepared)
        # Overrides in Python do not apply to scripts, and calling them is slow.
        with nullcontext() if self.blocks.recorder.lifts else without_function_overrides():
            result = operator.call(*positional, **named)
        name, asked = schema_of(operator.call).name, self.blocks.recorder.layouts_asked
        if name in MAY_COPY:
            layout = [*positional[1:], *named.values(), 0][0]
            order = order_of(MEMORY_FORMATS[layout], positional[0].ndim) if name == "aten::contiguous" else None
            result = asked.made(positional[0], result, order)
        elif name == "aten::to":
            result = asked.made(positional[0], result, is_guessed=True)
        elif name.startswith("aten::as_strided"):
            asked.ask(positional[0], exactly=True)
        return from_python(result)

    def _call_quantized(self, operator: Operator, values: Sequence[Any]) -> Any:
        """Call an operator on quantized tensors, or one that makes them; `NotImplemented` for any other."""
        namespace, _, name = schema_of(operator.call).name.partition("::")
        (first, *rest), named = split_arguments(operator, values)
        of_first = first[0] if isinstance(first, list) and first else first
        if namespace == "quantized":
            rest = [value.module if isinstance(value, Part) else value for value in rest]
        elif name == "quantize_per_tensor":
            rest[-1] = DTYPE_OF_NUMBER[rest[-1]]
        elif not isinstance(of_first, Quantized):
            return NotImplemented
        return call_quantized(operator.call, namespace, name, (first, *rest), named)

    def _as_argument(self, value: Any) -> Any:
        if isinstance(value, ScriptList):
            if value.is_known:
                return [self._as_argument(item) for item in value.items]
            raise self.blocks.error(
                "an operator takes a list whose length depends on values: only torch.cat, torch.stack, len, an index "
                "and a loop can take one"
            )
        if isinstance(value, Maybe):
            raise self.blocks.error(
                "an operator takes a value that may be None, depending on values: check it with `is not None` first"
            )
        return value

    # --- branches and loops ---------------------------------------------------------------------------------------

    def _truth(self, condition: Leaf) -> Leaf:
        """A condition: True or False if it is known, or else a tensor of one bool."""
        if isinstance(condition, torch.Tensor) and not self.blocks.depends_on_input(condition):
            return bool(condition.item())
        return self.blocks.truth(condition)

    def _branch(self, step: Step, env: dict[int, Any]) -> Sequence[Any]:
        condition = self._truth(env[step.inputs[0]])
        then, orelse = step.blocks
        if isinstance(condition, torch.Tensor) and (then.raises or orelse.raises):
            # The model need not be right where the program raises an error.
            condition = orelse.raises
        if isinstance(condition, bool):
            taken = then if condition else orelse
            self._run(taken, env)
            return [env[number] for number in taken.outputs]
        self._refuse_seen_elsewhere(step)
        outside = Outside(env, (then, orelse))

        def way(body: Body) -> Callable[[Sequence[torch.Tensor]], Any]:
            def run(own: Sequence[torch.Tensor]) -> Any:
                inside, containers = outside.copy(own)
                self._run(body, inside)
                return tuple(inside[number] for number in body.outputs), containers

            return run

        forms: list[Form] = []

        def flatten(one: Any, other: Any) -> Callable[[Any], Sequence[Leaf]]:
            form = join_forms(form_of(one), form_of(other))
            if form is None:
                raise self.blocks.error(
                    "the branches of an `if` make lists, dicts or tuples of different structure: give them the same one"
                )
            forms.append(form)
            return lambda result: list(leaves_of(result, form, self.blocks))

        leaves = self.blocks.branch(condition, way(then), way(orelse), outside.tensors, flatten)
        results, containers = make_value(forms[0], iter(leaves))
        put_back(outside.containers, containers)
        return results  # type: ignore[no-any-return]

    def _loop(self, step: Step, env: dict[int, Any]) -> Sequence[Any]:
        limit, going, *state = (env[number] for number in step.inputs)
        trips = None if isinstance(limit, int) and limit >= _NO_END else limit
        body = step.blocks[0]
        done = 0
        while True:
            going = self._truth(going)
            if going is False or (isinstance(trips, int) and done >= trips):
                return state
            known = going is True and (trips is None or (isinstance(trips, int) and trips <= UNROLLED))
            if not known or done >= UNROLLED:
                break
            env.update(zip(body.inputs, (done, *state), strict=True))
            self._run(body, env)
            going, *state = (env[number] for number in body.outputs)
            done += 1
        rest = trips if trips is None or not done else compute(self.blocks, "sub", (trips, done), "int")
        if not done:
            self._refuse_seen_twice(step, env)
        self._refuse_seen_elsewhere(step)
        return self._record_loop(rest, going, state, body, env, done)

    def _refuse_seen_twice(self, step: Step, env: dict[int, Any]) -> None:
        """Refuse a body that, in its first iteration, writes in place to a tensor that is also used outside of it."""
        for number, given in zip(step.inputs[2:], step.blocks[0].inputs[1:], strict=True):
            value = env[number]
            if not isinstance(value, torch.Tensor) or given not in step.blocks[0].written:
                continue
            others = (other for key, other in env.items() if key != number and isinstance(other, torch.Tensor))
            if self._uses[number] > 1 or any(other is value or share_memory(other, value) for other in others):
                raise self.blocks.error(SEEN_TWICE)

    def _record_loop(
        self, trips: Leaf, going: Leaf, state: Sequence[Any], body: Body, env: dict[int, Any], done: int
    ) -> Sequence[Any]:
        blocks = self.blocks
        outside = Outside(env, (body,))
        lists = outside.find_collecting(body)
        before = blocks.recorder.checkpoint()
        start = outside.carry(state, lists)
        form, recorded = form_of(start), None
        while recorded is None:
            try:
                recorded = self._record_with_form(trips, going, start, form, lists, body, outside, done)
            except _OtherForm as other:
                blocks.recorder.restore(before)
                form = other.form
            except UnlikeItems as unlike:
                blocks.recorder.restore(before)
                collecting = lists.pop(unlike.place)
                collecting.become([], sequence=as_sequence(collecting, blocks))
                start = outside.carry(state, lists)
                form = form_of(start)
        results, stacks = recorded
        ends, containers = make_value(form, iter(results))
        put_back(start[1], containers)
        for collecting, stack in zip(lists, stacks, strict=True):
            known = collecting.items or not collecting.is_known
            collecting.become([], torch.cat([as_stack(collecting, blocks), stack]) if known else stack)
        return ends  # type: ignore[no-any-return]

    def _record_with_form(
        self,
        trips: Leaf,
        going: Leaf,
        start: tuple[tuple[Any, ...], tuple[Any, ...]],
        form: Form,
        lists: Sequence[ScriptList],
        body: Body,
        outside: Outside,
        done: int,
    ) -> tuple[list[Leaf], list[torch.Tensor]]:
        """Record the loop under the assumption that the carried values keep one structure."""
        blocks = self.blocks

        def iteration(number: torch.Tensor, leaves: Sequence[Leaf], own: Sequence[torch.Tensor]) -> Iteration:
            carried, containers = make_value(form, iter(leaves))
            fresh = [ScriptList() for _ in lists]
            inside = outside.fill(own, start[1], containers, lists, fresh)
            index = number + done if done else number
            inside.update(zip(body.inputs, (index, *carried), strict=True))
            self._run(body, inside)
            more, *outs = (inside[value] for value in body.outputs)
            result = (tuple(outs), containers)
            wider = join_forms(form, form_of(result))
            if wider is None:
                raise blocks.error(
                    "a loop carries a list, dict or tuple whose structure changes in an iteration: keep its structure"
                )
            if wider != form:
                raise _OtherForm(wider)
            for place, (collecting, new) in enumerate(zip(lists, fresh, strict=True)):
                if not stacks(collecting, new):
                    raise UnlikeItems(place)
            collected = [blocks.as_tensor(each.items[0]) for each in fresh]
            return Iteration(self._truth(more), list(leaves_of(result, form, blocks)), collected)

        leaves = list(leaves_of(start, form, blocks))
        return blocks.loop(trips, going, leaves, iteration, outside.tensors, _varying(leaves, form, body))


def _varying(leaves: Sequence[Leaf], form: Form, body: Body) -> list[bool]:
    """Whether each leaf that a loop carries is known to change, because the body assigns to its variable."""
    flags: list[bool] = []
    for part, before, after in zip(form.parts[0].parts, body.inputs[1:], body.outputs[1:], strict=True):
        flags += [before != after and part.kind == "leaf"] * _count(part)
    flags += [False] * (len(leaves) - len(flags))
    return [
        flag and (isinstance(leaf, torch.Tensor) or is_number(leaf)) for flag, leaf in zip(flags, leaves, strict=True)
    ]


def _count(form: Form) -> int:
    own = 1 if form.kind in ("leaf", "stack", "maybe") else 0
    return own + sum(map(_count, form.parts))


def _bind(callee: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters. For a method, the first one is the object."""
    parameters = callee.schema.arguments
    given = [Part(callee.owner, ""), *args] if hasattr(callee, "owner") else list(args)
    for parameter in parameters[len(given) :]:
        if parameter.name in kwargs:
            given.append(kwargs[parameter.name])
        elif parameter.has_default_value():
            given.append(parameter.default_value)
        else:
            raise refused_here(f"{callee.name}() was called without its argument {parameter.name!r}")
    if len(given) > len(parameters):
        raise refused_here(f"{callee.name}() takes {len(parameters)} arguments and was called with {len(given)}")
    return [
        convert(value.reshape(()), kind) if isinstance(value, torch.Tensor) and kind in DTYPES else value
        for value, kind in zip(given, (str(parameter.type) for parameter in parameters), strict=True)
    ]


def _is_plain(value: Any) -> bool:
    """Whether a value is a known number, string or None, or a list of these."""
    if isinstance(value, ScriptList):
        return value.is_known and all(map(_is_plain, value.items))
    return isinstance(value, (int, float, bool, str, type(None))) and not isinstance(value, torch.SymInt)
