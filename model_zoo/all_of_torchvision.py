"""Every model of torchvision, as `torchvision.models.list_models()` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from onnx_parity.harness.case import Maker, floats, image
from onnx_parity.harness.zoo import Built, every, fill
from onnx_parity.model_zoo.detection import Detector
from onnx_parity.model_zoo.torchvision_import import torchvision

#: The image sizes of classifiers that do not run with 64.
_SIZES = {"inception_v3": 96, "googlenet": 64, "maxvit_t": 224, "quantized_inception_v3": 96}
#: The frames, height and width of videos where the network fixes them, s3d by the window of its last pooling.
_VIDEOS = {"mvit_v1_b": (16, 224, 224), "mvit_v2_s": (16, 224, 224), "s3d": (14, 224, 224)}
_DETECTOR: dict[str, Any] = {"min_size": 64, "max_size": 96}
#: By how many of 256 steps the results of quantized networks may differ. With these inputs it is 8 at most.
_STEPS = 12
_ROUNDED = (
    "each layer rounds to 256 steps; given the same input, torch and onnxruntime differ by one step in few elements, "
    "those that lie between two steps, and further layers enlarge the difference"
)
#: The height and width of two images for detectors that resize them, by exact numbers such as 1/2. Where these are
#: rounded, so are pixels, and the networks enlarge that, regions of interest until the order of their scores changes.
_RESIZED = {"rcnn": ((64, 96), (128, 192)), "ssdlite": ((80, 160), (160, 80))}
#: Thresholds at which untrained detectors find a few boxes.
_THRESHOLDS: dict[str, dict[str, Any]] = {
    "rcnn": {**_DETECTOR, "rpn_post_nms_top_n_test": 8, "box_score_thresh": 0.012, "box_detections_per_img": 3},
    "retinanet": {**_DETECTOR, "score_thresh": 0.05, "detections_per_img": 10, "topk_candidates": 20},
    "fcos": {**_DETECTOR, "score_thresh": 0.05, "detections_per_img": 10, "topk_candidates": 20},
    "ssd": {"score_thresh": 0.05, "detections_per_img": 10, "topk_candidates": 20},
}
_BATCH = {"x": {0: "batch"}, "earlier": {0: "batch"}, "later": {0: "batch"}}
_SIDES = {"image": {1: "height", 2: "width"}}


class Mask(nn.Module):
    """A segmentation network, which returns a dict."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        mask: Tensor = self.network(x)["out"]
        return mask


class OfRange(nn.Module):
    """A quantized network whose results are relative to the range of its last layer, which has 256 steps."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        layers = [each for each in network.modules() if isinstance(each, torch.ao.nn.quantized.Linear)]
        self.range = 256 * float(layers[-1].scale)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.network(x) / self.range
        return result


class Flow(nn.Module):
    """The optical flow between two images, after two of the usual twelve updates."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, earlier: Tensor, later: Tensor) -> list[Tensor]:
        flows: list[Tensor] = self.network(earlier, later, num_flow_updates=2)
        return flows


def _names() -> Sequence[str]:
    names: list[str] = torchvision.models.list_models()
    return names


def _build(name: str) -> Built:
    make: Callable[..., nn.Module] = torchvision.models.get_model_builder(name)
    kind = make.__module__.removeprefix("torchvision.models.").partition(".")[0]
    builders: Mapping[str, Callable[[str, Callable[..., nn.Module]], tuple[nn.Module, Mapping[str, Maker]]]] = {
        "detection": _detector,
        "optical_flow": _optical_flow,
        "quantization": _quantized,
        "segmentation": _segmenter,
        "video": _of_videos,
    }
    module, inputs = builders.get(kind, _classifier)(name, make)
    # A batch of 1, and one of another size than the example's.
    sizes = {"batch": (1, 3), "height": (73,), "width": (83,)}
    if name in _VIDEOS:
        sizes["batch"] = (2,)
    if images := _resized(name):
        sizes |= {"height": images[1][:1], "width": images[1][1:]}
    if kind == "quantization":
        return Built(OfRange(module), inputs, sizes, tolerance=_STEPS / 256, because=_ROUNDED)
    return Built(module, inputs, sizes)


def _classifier(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    # Smaller ones leave EfficientNets four elements of a channel, which say little of its variance.
    size = 128 if name.startswith("efficientnet") else _SIZES.get(name, 64)
    if name.startswith("vit_"):
        size = 56 if name.endswith("14") else 64
        return make(image_size=size), {"x": image(size)}
    # Their own way to fill weights takes half a minute.
    settings = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return make(**settings), {"x": image(size)}


def _quantized(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    """Quantized after its weights were filled: no parameters are left then."""
    settings = {"init_weights": False} if name in ("quantized_googlenet", "quantized_inception_v3") else {}
    network = make(quantize=False, **settings)
    fill(network, seed=0)
    quantization: Any = torchvision.models.quantization.utils
    engine = torch.backends.quantized.engine
    try:
        quantization.quantize_model(network, "fbgemm")
    finally:
        torch.backends.quantized.engine = engine
    return network, {"x": image(_SIZES.get(name, 64))}


def _segmenter(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    return Mask(make(weights_backbone=None)), {"x": image(64)}


def _of_videos(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    if name in _VIDEOS:
        return make(), {"x": floats(1, 3, *_VIDEOS[name])}
    return make(), {"x": floats(2, 3, 8, 64, 64)}


def _optical_flow(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    return Flow(make()), {"earlier": image(128), "later": image(128)}


def _detector(name: str, make: Callable[..., nn.Module]) -> tuple[nn.Module, Mapping[str, Maker]]:
    settings = next(each for part, each in _THRESHOLDS.items() if part in name)
    images = _resized(name)
    return Detector(make, **settings), {"image": floats(3, *images[0]) if images else floats(3, 70, 80)}


def _resized(name: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    return next((images for part, images in _RESIZED.items() if part in name), None)


torchvision_models = every("torchvision", _names, _build, extra="models", dynamic={**_BATCH, **_SIDES})
