"""Every opset is written as requested, passes the checker, and computes the same as torch."""

from __future__ import annotations

import onnx
import onnx.reference
import pytest
import torch

import onnx_parity
from tests.exporter.subjects import Classifier, assert_agrees, images


@pytest.fixture(scope="module")
def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier().eval()


@pytest.fixture(scope="module")
def capture(model: Classifier) -> onnx_parity.Capture:
    return onnx_parity.capture_program(
        model, (images(),), dynamic_axes={"input": {0: "batch", 2: "height", 3: "width"}}
    )


@pytest.mark.parametrize("opset", range(7, 29))
def test_the_requested_opset_is_written(opset: int, model: Classifier, capture: onnx_parity.Capture) -> None:
    program = capture.lower(opset)
    proto = program.model_proto
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", opset)]
    onnx.checker.check_model(proto, full_check=True)
    for x in (images(), images(1, 5), images(3, 16)):
        if opset <= 26:
            assert_agrees(program, model, x)
        else:
            # onnxruntime 1.31 runs opsets up to 26.
            (result,) = onnx.reference.ReferenceEvaluator(proto).run(None, {"input": x.numpy()})
            torch.testing.assert_close(torch.from_numpy(result), model(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [6, 29, 0, -1])
def test_out_of_range(opset: int) -> None:
    with pytest.raises(onnx_parity.OpsetError) as caught:
        onnx_parity.export(torch.relu, (torch.ones(2),), opset_version=opset)
    assert str(caught.value) == (
        f"this exporter does not write opset_version={opset}, but only opsets 7 to 28. It never substitutes another "
        "one: choose the newest that your runtime supports."
    )


@pytest.mark.parametrize("opset", [True, "13", 13.0])
def test_no_number(opset: object) -> None:
    with pytest.raises(onnx_parity.OpsetError) as caught:
        onnx_parity.export(torch.relu, (torch.ones(2),), opset_version=opset)  # type: ignore[arg-type]
    assert str(caught.value) == f"opset_version is {opset!r}: give an int from 7 to 28"


def test_default_is_18() -> None:
    assert onnx_parity.export(torch.relu, (torch.ones(2),)).opset_version == 18
