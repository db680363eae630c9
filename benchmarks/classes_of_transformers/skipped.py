"""Classes that the tests of transformers' exporter skip for ONNX, with the reasons of `tests/exporters/test_export.py`.
Those whose small models have results that mean nothing are left out, and those that onnxruntime alone fails at."""

from __future__ import annotations

from collections.abc import Sequence

SKIPPED: dict[str, Sequence[str]] = {
    "takes more than ten minutes": (
        "BigBirdForCausalLM", "BigBirdForMaskedLM", "BigBirdForMultipleChoice", "BigBirdForPreTraining",
        "BigBirdForQuestionAnswering", "BigBirdForSequenceClassification", "BigBirdForTokenClassification",
        "BigBirdModel", "DonutSwinForImageClassification", "DonutSwinModel", "Mask2FormerForUniversalSegmentation",
        "Mask2FormerModel", "MaskFormerSwinBackbone", "MaskFormerSwinModel", "PixioBackbone", "PixioModel",
        "SwinBackbone", "SwinForImageClassification", "SwinForMaskedImageModeling", "SwinModel", "Swinv2Backbone",
        "Swinv2ForImageClassification", "Swinv2ForMaskedImageModeling", "Swinv2Model",
    ),
    "torch.export fails": (
        "GlmImageForConditionalGeneration", "GlmImageModel", "HieraForPreTraining",
        "OpenAIPrivacyFilterForTokenClassification", "OpenAIPrivacyFilterModel", "Sam2Model", "Sam2VisionModel",
        "SeamlessM4TForSpeechToSpeech", "SeamlessM4TForSpeechToText", "SeamlessM4Tv2ForSpeechToSpeech",
        "SeamlessM4Tv2ForSpeechToText", "VideoMAEForPreTraining",
    ),
    "torch's decompositions fail": (
        "CHMv2ForDepthEstimation", "GroundingDinoForObjectDetection", "GroundingDinoModel",
        "MMGroundingDinoForObjectDetection", "MMGroundingDinoModel",
    ),
}  # fmt: skip
