"""Random numbers with a seed that the program gives are constants of the model, or a warning says that they are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

import onnx_parity
from onnx_parity.exporter.errors import OnnxExporterWarning
from onnx_parity.exporter.verification.float64 import in_dtype

X = torch.arange(6.0).reshape(2, 3)


def _default(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(3) + torch.randint(0, 9, (3,)) + torch.rand_like(x)


def _after_a_fork(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        x = x + torch.rand(3)
    return x + torch.rand(3)


def _initialized(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(5)
    weight = torch.empty(3, 4)
    torch.nn.init.xavier_uniform_(weight)
    return F.dropout(x @ weight, 0.5, training=False) + torch.rand(4)


def _after_evaluation(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return F.rrelu(F.scaled_dot_product_attention(x[None], x[None], x[None])) + torch.rand(3)


def _passed_on(x: torch.Tensor) -> torch.Tensor:
    generator = torch.manual_seed(0)
    noise = torch.empty(20, 3).t().normal_(generator=generator)
    kept = torch.bernoulli(torch.full((3,), 0.5), generator=generator)
    chosen = torch.multinomial(torch.tensor([0.1, 0.2, 0.7]), 2, generator=generator)
    return x[:, torch.randperm(3, generator=generator)] * kept + noise.sum(1) + chosen.sum()


def _of_halves(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return x + torch.randn(40, 3, dtype=torch.float16).sum(0)


@torch.jit.script
def _scripted(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand([3])


@pytest.mark.parametrize(
    "program", [_default, _after_a_fork, _initialized, _passed_on, _of_halves, _after_evaluation, _scripted]
)
def test_seeded_numbers_are_constants(program: Callable[..., object]) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        exported = onnx_parity.export(program, (X,), opset_version=18, verify=True)
    assert torch.equal(before, torch.get_rng_state())
    assert not any(node.op_type.startswith("Random") for node in exported.model.graph)


def _of_any_size(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(x.shape[0], 3)


def _of_chances(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.bernoulli(x.sigmoid())


def _of_an_own_generator(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(3, generator=torch.Generator().manual_seed(7))


def _after_attention(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)


def _of_a_copied_state(x: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state().clone()
    torch.manual_seed(0)
    torch.set_rng_state(state)
    return x + torch.rand(3)


def _of_a_state_that_is_set_otherwise(x: torch.Tensor) -> torch.Tensor:
    state = torch.default_generator.get_state()
    torch.manual_seed(0)
    torch.default_generator.set_state(state)
    return x + torch.rand(3)


def _of_a_seed_by_chance(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(torch.seed() % 1000)
    return x + torch.rand(3)


def _after_dropout(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return F.dropout(x, 0.5, training=True)


@torch.jit.script
def _in_a_loop(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    for _ in range(int(x.sum())):
        x = x + torch.rand([3])
    return x


@pytest.mark.parametrize(
    ("program", "operator"),
    [
        (_of_any_size, "rand"),
        (_of_chances, "bernoulli"),
        (_of_an_own_generator, "rand"),
        (_after_dropout, "native_dropout"),
        (_after_attention, "scaled_dot_product_attention"),
        (_in_a_loop, "rand"),
    ],
)
def test_seeded_numbers_that_are_no_constants_are_warned_of(program: Callable[..., object], operator: str) -> None:
    axes = {"x": {0: "rows"}}
    with pytest.warns(OnnxExporterWarning, match=rf"aten::{operator} draws random numbers .* with a given seed"):
        onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes)
    with pytest.raises(onnx_parity.FrozenValueError, match=rf"aten::{operator} draws random numbers"):
        onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes, strict=True)
    with pytest.warns(OnnxExporterWarning), pytest.raises(onnx_parity.VerificationError):
        onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes=axes, verify=True)


@pytest.mark.parametrize("program", [_of_a_copied_state, _of_a_state_that_is_set_otherwise, _of_a_seed_by_chance])
def test_states_and_seeds_that_may_be_others_in_each_run_are_warned_of(program: Callable[..., object]) -> None:
    with pytest.warns(OnnxExporterWarning, match="aten::rand draws random numbers"):
        exported = onnx_parity.export(program, (X,))
    assert not torch.equal(exported(X), exported(X))


def test_exports_in_threads_do_not_share_their_numbers() -> None:
    def drawing(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def drawn(x: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(seed)
            for _ in range(30):
                x = x + torch.randn(3)
            return x

        return drawn

    programs = [drawing(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        exported = list(pool.map(lambda program: onnx_parity.export(program, (X,)), programs))
    for program, found in zip(programs, exported, strict=True):
        torch.testing.assert_close(found(X), program(X))


def test_what_follows_numbers_that_are_not_known_is_not_known_either() -> None:
    def drawn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        return torch.bernoulli(x.sigmoid()), torch.rand(3)

    with pytest.warns(OnnxExporterWarning, match="aten::rand draws"):
        exported = onnx_parity.export(drawn, (X,))
    assert not torch.equal(exported(X)[1], exported(X)[1])


@pytest.mark.parametrize(
    "drawn",
    [
        lambda x, generator: torch.rand(x.shape, generator=generator),
        lambda x, generator: torch.randn(x.shape, generator=generator, dtype=torch.float64).float(),
        lambda x, generator: torch.randint(5, x.shape, generator=generator),
        lambda x, generator: torch.randint(2, 5, x.shape, generator=generator),
        lambda x, generator: torch.randperm(x.shape[0], generator=generator)[:, None].expand(x.shape),
    ],
)
def test_as_many_numbers_as_a_dynamic_axis_has_are_drawn_from_a_generator(drawn: Callable[..., torch.Tensor]) -> None:
    outside = torch.Generator().manual_seed(3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + drawn(x, outside)

    with pytest.warns(OnnxExporterWarning, match=r"aten::rand\w* draws random numbers .* with a given seed"):
        exported = onnx_parity.export(program, (X,), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    for rows in (1, 2, 7):
        assert exported(torch.zeros(rows, 3)).shape == (rows, 3)
    assert len(exported(torch.zeros(97, 3)).unique()) > 2


def test_generators_that_are_not_seeded_stay_random() -> None:
    outside = torch.Generator().manual_seed(3)
    torch.rand(1, generator=outside)

    def drawn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        torch.seed()
        return torch.rand(3), torch.rand(3, generator=torch.default_generator), torch.rand(3, generator=outside) + x

    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        exported = onnx_parity.export(drawn, (X,))
    assert not any(torch.equal(one, other) for one, other in zip(exported(X), exported(X), strict=True))


def test_a_generator_of_the_caller_s_that_nothing_was_drawn_from_is_warned_of() -> None:
    outside = torch.Generator().manual_seed(3)
    with pytest.warns(OnnxExporterWarning, match="aten::rand draws random numbers"):
        exported = onnx_parity.export(lambda x: x + torch.rand(3, generator=outside), (X,))
    assert not torch.equal(exported(X), exported(X))


def test_decisions_by_random_numbers_are_warned_of() -> None:
    def decides(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.rand(1) > 0.5 else x

    with pytest.warns(onnx_parity.TracerWarning, match="has the random value of this export as a constant"):
        onnx_parity.export(decides, (X,))
    with pytest.raises(onnx_parity.FrozenValueError, match="random value"):
        onnx_parity.export(decides, (X,), strict=True)


@pytest.mark.parametrize("program", [_default, _passed_on, _of_halves, _initialized])
def test_the_same_numbers_are_drawn_in_another_dtype(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Otherwise the difference between them would be taken for torch's error."""
    with in_dtype(torch.float64):
        wide = program(X.double())
    assert wide.dtype is torch.float64
    torch.testing.assert_close(wide.float(), program(X), rtol=1e-3 if program is _of_halves else 1e-6, atol=1e-2)
