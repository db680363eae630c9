"""Imports PyTorch's tests with today's torch: what they import and is no longer there is replaced."""

from __future__ import annotations

import importlib.util
import io
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import onnx
import torch
import torch.onnx.verification
from torch.onnx import TrainingMode
from torch.testing._internal import common_utils

from benchmarks.torch_tests.judge import Call, Exported, feeds_of
from benchmarks.torch_tests.source import TESTS
from onnx_parity.harness.subjects.delivered import Delivered
from onnx_parity.model_zoo.torchvision_import import torchvision

#: As `op_cases/resize.py` declares it: the positions at which torch and onnxruntime interpolate differ by float32's
#: rounding.
_TOLERANCES = {"interpolate": 4e-6}
#: Below this, a test only repeats what torch's tests ask for anyway.
_LEAST_ASKED = 1e-5


class TestCase(common_utils.TestCase):
    """The base class of the tests. Each program is passed to `run_program`, instead of to torch's own verification."""

    opset_version = 9
    keep_initializers_as_inputs = False
    is_script = False
    check_shape = True
    check_dtype = True
    run_program: ClassVar[Callable[[Call], None]]

    def setUp(self) -> None:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        self.is_script_test_enabled = True

    def assertEqual(self, *args: Any, **kwargs: Any) -> None:
        """Types of ONNX are not compared: the tests spell out those that torch's own exporter writes."""
        if not isinstance(args[0], onnx.TypeProto):
            super().assertEqual(*args, **kwargs)  # noqa: PT009  (it compares tensors)

    def run_test(
        self,
        model: Any,
        input_args: Any,
        input_kwargs: dict[str, Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        do_constant_folding: bool = True,
        dynamic_axes: Any = None,
        additional_test_inputs: Sequence[Any] | None = None,
        input_names: list[str] | None = None,
        output_names: list[str] | None = None,
        training: TrainingMode = TrainingMode.EVAL,
        remained_onnx_input_idx: Any = None,
        **_: object,
    ) -> None:
        """What torch's tests call for each program, with the same arguments."""
        scripted = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
        if not (self.is_script_test_enabled if self.is_script else not scripted):
            return
        if isinstance(remained_onnx_input_idx, dict):
            remained_onnx_input_idx = remained_onnx_input_idx["scripting" if self.is_script else "tracing"]
        call = Call(
            program=torch.jit.script(model) if self.is_script and not scripted else model,
            args=_tuple(input_args),
            kwargs=dict(input_kwargs or {}),
            others=tuple(map(_tuple, additional_test_inputs or ())),
            dynamic_axes=dynamic_axes,
            input_names=input_names,
            output_names=output_names,
            training=training,
            fold=do_constant_folding,
            fed=remained_onnx_input_idx,
            tolerance=self._tolerance(max(rtol or 0.0, atol or 0.0)),
            check_shape=self.check_shape,
            check_dtype=self.check_dtype,
        )
        type(self).run_program(call)

    def _tolerance(self, asked: float) -> float | None:
        """The tolerance that a test asks for, or the one declared here; None for the oracle's own."""
        if asked >= _LEAST_ASKED:
            return asked
        return next((each for words, each in _TOLERANCES.items() if words in self._testMethodName), None)


def _tuple(arguments: Any) -> tuple[Any, ...]:
    return tuple(arguments) if isinstance(arguments, (tuple, list)) else (arguments,)


def import_tests(folder: Path) -> type[TestCase]:
    """The class of torch's tests in this folder."""
    assert torchvision is not None, "it is imported first, because the tests import it without help"
    parameterized = ModuleType("parameterized")
    # The tests are declared once for all opsets: the opset is set on each of them here.
    setattr(parameterized, "parameterized_class", lambda **_: lambda each: each)  # noqa: B010
    common = ModuleType("onnx_test_common")
    vars(common).update(_TestONNXRuntime=TestCase, parameterize_class_name=None)
    sys.modules.update(parameterized=parameterized, onnx_test_common=common)
    vars(torch.onnx.verification).update(_ort_session=_session, _run_ort=_run)
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("test_pytorch_onnx_onnxruntime", folder / TESTS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: type[TestCase] = module.TestONNXRuntime
    return found


# Tests of random operators export and run a model by themselves, with these functions of torch 1.13.


@dataclass(frozen=True)
class _Model:
    delivered: Delivered
    exported: Exported


def _session(model: io.BytesIO) -> _Model:
    delivered = Delivered(model.getvalue())
    return _Model(delivered, Exported.of(delivered))


def _run(model: _Model, inputs: Sequence[Any]) -> list[Any]:
    return model.exported.run(feeds_of(model.delivered, tuple(inputs), None))
