"""The small configurations of classes of transformers, and the inputs that are made up for them."""

from __future__ import annotations

from importlib import import_module

import pytest

from onnx_parity.harness.axes import Dtype
from onnx_parity.harness.zoo import CannotBuildError

pytest.importorskip("transformers")
_CLASSES = import_module("onnx_parity.model_zoo.all_of_transformers").transformers_classes
_PICTURES = ("pixel_values", "prompt_pixel_values", "prompt_masks")


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        # Spectrograms, with as many bands as the part that hears them has.
        ("ASTForAudioClassification", {"input_values": (2, 1024, 16)}),
        ("ParakeetForCTC", {"input_features": (2, 32, 16)}),
        # Layers of a backbone by their names, and by their numbers.
        ("DepthAnythingForDepthEstimation", {"pixel_values": (2, 3, 32, 32)}),
        ("DPTForDepthEstimation", {"pixel_values": (2, 3, 32, 32)}),
        ("SegGptForImageSegmentation", dict.fromkeys(_PICTURES, (2, 3, 32, 32))),
        ("ViTMAEForPreTraining", {"pixel_values": (2, 3, 32, 32), "noise": (2, 16)}),
        ("SplinterForPreTraining", {"input_ids": (2, 7), "attention_mask": (2, 7)}),
        ("VisionEncoderDecoderModel", {"pixel_values": (2, 3, 32, 32), "decoder_input_ids": (2, 5)}),
    ],
)  # fmt: skip
def test_inputs_are_made_up(name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    built = _CLASSES.build(name)
    assert {key: tuple(maker.make(0, Dtype.FLOAT32).shape) for key, maker in built.inputs.items()} == shapes


def test_no_word_lies_beyond_a_small_vocabulary() -> None:
    built = _CLASSES.build("FastSpeech2ConformerModel")
    words = built.inputs["input_ids"].make(0, Dtype.FLOAT32)
    assert words.max() < built.module.model.config.vocab_size == 78


def test_a_configuration_that_does_not_fit_is_refused_with_what_is_wrong() -> None:
    with pytest.raises(CannotBuildError, match="hidden_size should be equal to the last value in out_features"):
        _CLASSES.build("EfficientLoFTRForKeypointMatching")
