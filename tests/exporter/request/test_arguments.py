"""The arguments of a program, and the names of its inputs, outputs and weights."""

from __future__ import annotations

import dataclasses
import inspect
from types import MethodType
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import onnx_parity
from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.request.call_arguments import signature_of
from onnx_parity.exporter.request.names import _refuse_duplicates
from onnx_parity.exporter.torch_inside import pytree
from tests.exporter.subjects import assert_agrees

X = torch.arange(6.0).reshape(2, 3)


def keyword_only(x: torch.Tensor, *, scale: torch.Tensor, times: int = 1) -> torch.Tensor:
    return x * scale * times


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((X,), {"scale": X, "times": 3}), ((X, {"scale": X, "times": 3}), None), (X, {"scale": X, "times": 3})],
)
def test_keyword_arguments(args: Any, kwargs: dict[str, Any] | None) -> None:
    program = onnx_parity.export(keyword_only, args, kwargs=kwargs)
    assert program.input_names == ("x", "scale")
    torch.testing.assert_close(program(X, scale=X + 1), keyword_only(X, scale=X + 1, times=3))


def test_dict_at_the_end_is_an_argument_if_its_keys_are_no_parameters() -> None:
    def takes_dict(x: torch.Tensor, options: dict[str, torch.Tensor]) -> torch.Tensor:
        return x + options["shift"]

    def takes_others(options: dict[str, torch.Tensor], **others: torch.Tensor) -> torch.Tensor:
        return options["shift"] * len(others)

    assert_agrees(onnx_parity.export(takes_dict, (X, {"shift": X})), takes_dict, X, {"shift": X})
    assert_agrees(onnx_parity.export(takes_dict, (X, {"shift": X}, {})), takes_dict, X, {"shift": X})
    assert_agrees(onnx_parity.export(takes_others, ({"shift": X},)), takes_others, {"shift": X})


def test_a_dict_at_the_end_with_a_misspelt_parameter_is_no_argument() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(lambda x, shift: x + shift, (X, {"shfit": X}))
    assert str(caught.value) == (
        "the program has no parameter 'shfit': its parameters are x, shift. A dict at the end of args is taken as "
        "keyword arguments: if the program has a dict as an argument, put an empty one after it, args=(..., {...}, {})."
    )


def test_what_is_no_tensor_is_built_in() -> None:
    def chosen(x: torch.Tensor, name: str, times: int, on: bool, nothing: None) -> torch.Tensor:
        return x * times if on and name == "times" and nothing is None else x

    program = onnx_parity.export(chosen, (X, "times", 4, True, None))
    torch.testing.assert_close(program(X), X * 4)


def test_unused_inputs_are_kept() -> None:
    program = onnx_parity.export(lambda x, unused: x + 1, (X, torch.ones(5)))
    assert program.input_names == ("x", "unused")
    torch.testing.assert_close(program(X, torch.ones(5)), X + 1)


def test_names() -> None:
    def two(x: torch.Tensor, pair: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        return x + pair[0], pair[1]

    program = onnx_parity.export(two, (X, [X, X]))
    assert program.input_names == ("x", "pair_0", "pair_1") and program.output_names == ("output_0", "output_1")
    program = onnx_parity.export(two, (X, [X, X]), input_names=["a", "b"], output_names=["sum"])
    assert program.input_names == ("a", "b", "pair_1") and program.output_names == ("sum", "output_1")


def test_names_beyond_the_inputs_go_to_the_weights() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    program = onnx_parity.export(model, (X,), input_names=["in", *(f"learned_{number}" for number in range(4))])
    assert list(program.model.graph.initializers) == ["learned_0", "learned_1", "learned_2", "learned_3"]
    assert_agrees(program, model, X)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(model, (X,), input_names=[str(number) for number in range(7)])
    assert str(caught.value) == (
        "input_names has 7 names, but the program has 1 input and 4 weights: leave out the last 2"
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"input_names": ["a", "a"]}, "two inputs are called 'a': give them different names in input_names"),
        ({"input_names": [""]}, "input_names contains '': give strings that are not empty"),
        ({"input_names": [3]}, "input_names contains 3: give strings that are not empty"),
        (
            {"output_names": ["a", "b"]},
            "output_names has 2 names (a, b), but the program returns 1 output: leave out the last 1",
        ),
    ],
)
def test_wrong_names(names: dict[str, Any], message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(lambda x, y: x + y, (X, X), **names)
    assert str(caught.value) == message


@dataclasses.dataclass
class Opaque:
    value: int


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            X.to_sparse(),
            "the argument 'x' is a torch.sparse_coo tensor: give a dense one and convert it inside the program",
        ),
        (
            torch.quantize_per_tensor(X, 0.1, 0, torch.qint32),
            "the argument 'x' is quantized to torch.qint32 by torch.per_tensor_affine: only tensors of torch.quint8 "
            "and torch.qint8 with one scale can be inputs, so dequantize it before",
        ),
        (
            torch.ones(2, dtype=torch.complex32),
            "the argument 'x' is of torch.complex32, which has no ONNX type here: "
            "give another dtype and convert it inside the program",
        ),
    ],
)
def test_arguments_that_cannot_be_inputs(argument: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(lambda x: x, (argument,))
    assert str(caught.value) == message


@pytest.mark.parametrize("as_tuple", [True, False])
def test_an_array_is_no_tensor(as_tuple: bool) -> None:
    array = numpy.ones((4, 3), numpy.float32)
    with pytest.raises(
        onnx_parity.CaptureError, match=r"argument 'input' \(position 1\) must be Tensor, not numpy.ndarray"
    ):
        onnx_parity.export(nn.Linear(3, 2), (array,) if as_tuple else array)


def test_models_that_are_none() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(3, (X,))  # type: ignore[arg-type]
    assert str(caught.value) == "model is 3: give a torch.nn.Module, a function of tensors, or an ExportedProgram"
    exported = torch.export.export(nn.Linear(3, 2), (X,))
    assert_agrees(onnx_parity.export(exported.module(), (X,)), exported.module(), X)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("verify", "yes", "verify is 'yes': give True or False. Give the arguments after `f` by name, since "),
        ("export_params", {"x": [0]}, "export_params is {'x': [0]}: give True or False. "),
        ("keep_initializers_as_inputs", 2, "keep_initializers_as_inputs is 2: give True or False. "),
        ("input_names", "x", "input_names is 'x': give a list of names, ['x', 'y']"),
        ("input_names", 3, "input_names is 3: give a list of names, ['x', 'y']"),
        ("output_names", {"y"}, "output_names is {'y'}: give a list of names, ['x', 'y']"),
        ("output_names", [None], "output_names contains None: give strings that are not empty"),
        ("dynamic_axes", X, "dynamic_axes is tensor("),
        ("dynamic_axes", 3, "dynamic_axes is 3: give a dict of axes by the names of inputs and outputs, "),
        ("dynamic_shapes", [3], "dynamic_shapes['input'] is 3: give a dict, {0: Dim('batch')}, or one entry for each "),
        ("artifacts_dir", None, "artifacts_dir is None: give the path of a folder"),
        ("custom_translation_table", X, "custom_translation_table is tensor("),
    ],
)
def test_arguments_of_another_kind(name: str, value: Any, message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(nn.ReLU(), (X,), **{name: value})
    assert str(caught.value).startswith(message)


def test_numbers_and_numpy_s_own_serve_as_switches(capsys: pytest.CaptureFixture[str]) -> None:
    onnx_parity.export(nn.ReLU(), (X,), verbose=1, do_constant_folding=numpy.True_, verify=0)  # type: ignore[arg-type]
    assert "onnx::Relu" in capsys.readouterr().out


def test_wrong_training_mode() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(nn.ReLU(), (X,), training="eval")
    assert str(caught.value) == "training is 'eval': give True, False, or an onnx_parity.TrainingMode"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: None, "the program returns None, which has no tensor: return at least one tensor"),
        (
            lambda x: Opaque(4),
            "the program returns a Opaque, which holds no tensor in its attributes: return tensors, or tuples, lists, "
            "dicts, dataclasses and other objects that hold them",
        ),
    ],
)
def test_results_that_cannot_be_outputs(result: Any, message: str) -> None:
    with pytest.raises(onnx_parity.CaptureError) as caught:
        onnx_parity.export(result, (X,))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "x",
    [
        X.t(),
        X[:, ::2],
        torch.ones(1, 3).expand(2, 3),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(0, 3),
        X.clone().requires_grad_(),
        nn.Parameter(X),
    ],
    ids=["transposed", "strided", "expanded", "channels_last", "empty", "requires_grad", "parameter"],
)
def test_inputs_of_every_layout(x: torch.Tensor) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0), x.reshape(-1) * 2

    assert_agrees(onnx_parity.export(program, (x,)), program, x.detach())


def test_modules_that_know_their_example() -> None:
    import torch.onnx

    class Known(torch.onnx.ExportableModule):
        def forward(self, x: torch.Tensor, options: dict[str, torch.Tensor]) -> torch.Tensor:
            return x + options["shift"]

        def example_arguments(self) -> Any:
            return (X, {"shift": X}), None

        def input_names(self) -> tuple[str, ...]:
            return ("a", "b")

        def output_names(self) -> tuple[str, ...]:
            return ("sum",)

        def dynamic_shapes(self) -> Any:
            return ({0: "rows"}, {"shift": {0: "rows"}})

    program = onnx_parity.export(Known())
    assert (program.input_names, program.output_names) == (("a", "b"), ("sum",))
    assert str(program.model.graph.outputs[0].shape) == "[rows,3]"
    program.verify()
    assert onnx_parity.export(Known(), input_names=["c"]).input_names == ("c", "options")
    assert onnx_parity.export(Known(), (X, {"shift": X}, {})).input_names == ("x", "options")


@dataclasses.dataclass
class Registered:
    value: torch.Tensor
    times: int = 2
    extra: torch.Tensor | None = None


def test_dataclasses_that_torch_knows() -> None:
    if Registered not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(Registered)

    def program(pair: Registered) -> Registered:
        assert pair.extra is None
        return Registered(pair.value * pair.times, 5, pair.value + 1)

    exported = onnx_parity.export(program, (Registered(X),))
    assert exported.input_names == ("pair",)
    result = exported(Registered(X + 1))
    assert isinstance(result, Registered) and result.times == 5
    torch.testing.assert_close((result.value, result.extra), ((X + 1) * 2, X + 2))


def test_an_output_is_not_called_as_an_input() -> None:
    def doubled(output: torch.Tensor) -> torch.Tensor:
        return output * 2

    program = onnx_parity.export(doubled, X, verify=True)
    assert [each.name for each in program.model.graph.outputs] == ["output_out"]
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(doubled, X, input_names=["x"], output_names=["x"])
    assert str(caught.value) == (
        "an input and an output are both called 'x', but every value of a model needs its own name: give another one "
        "in output_names"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kwargs": {"input": X}},
            "the program gets 'input' twice, by position and by name: give it in args or in kwargs",
        ),
        ({"kwargs": "x"}, "kwargs is 'x': give a dict of arguments by name, {'x': tensor}"),
        (
            {"dynamic_axes": ["x"]},
            "dynamic_axes is ['x']: give a dict of axes by the names of inputs and outputs, {'x': {0: 'batch'}}",
        ),
        (
            {"dynamic_shapes": 5},
            "dynamic_shapes is 5: give a dict by the names of arguments, {'x': {0: Dim('batch')}}, or a tuple with one "
            "entry for each",
        ),
        ({"custom_opsets": [1]}, "custom_opsets is [1]: give a dict of versions, {'my_domain': 2}"),
        (
            {"custom_translation_table": 3},
            "custom_translation_table is 3: give a dict of lowerings, {torch.ops.my_ops.foo.default: lower_foo}",
        ),
        (
            {"export_modules_as_functions": "x"},
            "export_modules_as_functions is 'x': give True, or the classes of modules, {torch.nn.LayerNorm}",
        ),
        (
            {"export_modules_as_functions": 3},
            "export_modules_as_functions is 3: give True, or the classes of modules, {torch.nn.LayerNorm}",
        ),
    ],
)
def test_arguments_of_other_types(options: dict[str, Any], message: str) -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(nn.Linear(3, 2), X, **options)
    assert str(caught.value) == message


def test_other_constants_than_those_built_in_are_refused() -> None:
    program = onnx_parity.export(lambda x, times: x * times, (X, 3))
    assert torch.equal(program(X + 1, 3), (X + 1) * 3)
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        program(X, 4)
    assert str(caught.value) == (
        "times is 4, but the model was exported with the constant 3 there. Export it with this value, or make it a "
        "tensor"
    )


def test_the_signature_of_a_function_whose_defaults_change() -> None:
    def program(x: torch.Tensor, times: int = 2) -> torch.Tensor:
        return x * times

    assert signature_of(program) == signature_of(program) == inspect.signature(program)
    program.__defaults__ = (3,)
    assert signature_of(program) == inspect.signature(program)
    method = MethodType(program, 1)
    assert signature_of(method) == inspect.signature(method)
    assert signature_of(program) == inspect.signature(program)


@pytest.mark.parametrize(
    ("keyword", "meant"),
    [
        ("dynamic_axis", ". Did you mean 'dynamic_axes'?"),
        ("opset", ". Did you mean 'opset_version'?"),
        ("zzz", ": its parameters are model, args, f, export_params"),
    ],
)
def test_a_misspelt_keyword(keyword: str, meant: str) -> None:
    given: dict[str, Any] = {keyword: None}
    with pytest.raises(TypeError) as caught:
        onnx_parity.export(torch.relu, (torch.ones(2),), **given)
    assert str(caught.value).startswith(f"export() got an unexpected keyword argument {keyword!r}{meant}")


def test_a_file_before_the_arguments() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.relu, "model.onnx", (torch.ones(2),))  # type: ignore[arg-type]
    assert str(caught.value) == "args is 'model.onnx' and f is of type tuple: give the arguments before the file"


def test_an_argument_in_the_place_of_the_file() -> None:
    with pytest.raises(onnx_parity.ArgumentError) as caught:
        onnx_parity.export(torch.add, torch.ones(2), torch.ones(2))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "f is of type Tensor, and names the file: give all arguments of the program as one tuple, args=(x, y), and "
        "those by keyword as kwargs={'z': z}"
    )


@pytest.mark.parametrize("args", [(torch.ones(2),), (torch.ones(2),) * 3])
def test_too_few_or_too_many_arguments_are_told_with_the_parameters(args: tuple[torch.Tensor, ...]) -> None:
    def masked(image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return image * mask

    with pytest.raises(onnx_parity.errors.ProgramFailedError) as caught:
        onnx_parity.export(masked, args)
    assert str(caught.value).splitlines()[1] == (
        "Its parameters are image, mask: give all positional arguments as one tuple, args=(x, y), and those by keyword "
        "as kwargs={'z': z}."
    )


def test_many_names_are_checked_in_a_time_that_grows_with_their_number() -> None:
    """Each name was counted in the whole list: minutes for this one."""
    names = [f"x{number}" for number in range(200_000)]
    _refuse_duplicates("input", names)
    with pytest.raises(ArgumentError, match="two inputs are called 'x7'"):
        _refuse_duplicates("input", [*names, "x7"])
