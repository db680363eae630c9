"""Images: filters, segmentation, recognition, measures of quality, detectors."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import BATCH, IMAGES, Calling, library, made, named

_PICTURE = floats(2, 3, 32, 40, low=0, high=1)
_PICTURES: Any = {"inputs": {"x": _PICTURE}, "sizes": {"batch": (1, 3), "height": (29, 64), "width": (37, 64)}}
#: Of networks that halve an image five times.
_OF_32: Any = {
    "inputs": {"x": floats(2, 3, 64, 96)},
    "sizes": {"batch": (1, 3), "height": (32, 128), "width": (64, 160)},
    "dynamic": IMAGES,
}
_SQUARE: Any = {"inputs": {"x": floats(2, 3, 64, 64)}, "sizes": {"batch": (1, 3)}, "dynamic": BATCH}


def _filter(path: str, *args: Any, **keywords: Any) -> Built:
    return Built(made(f"kornia.{path}", *args, **keywords), **_PICTURES, dynamic=IMAGES)


def _function(path: str, *args: Any, **keywords: Any) -> Built:
    function = named(f"kornia.{path}")
    return Built(Calling(lambda x: function(x, *args, **keywords)), **_PICTURES, dynamic=IMAGES)


kornia = library(
    "kornia",
    {
        "canny": lambda: _filter("filters:Canny"),
        "gaussian_blur": lambda: _filter("filters:GaussianBlur2d", (3, 5), (1.5, 1.0)),
        "bilateral_blur": lambda: _filter("filters:BilateralBlur", (3, 3), 0.1, (1.5, 1.5)),
        "median_blur": lambda: _filter("filters:MedianBlur", (3, 3)),
        "unsharp_mask": lambda: _filter("filters:UnsharpMask", (3, 3), (1.5, 1.5)),
        "rgb_to_lab": lambda: _filter("color:RgbToLab"),
        "rgb_to_hsv": lambda: _filter("color:RgbToHsv"),
        "corners": lambda: _filter("feature:CornerHarris", 0.04),
        "dilation": lambda: _function("morphology:dilation", kernel=_ones(3, 3)),
        "rotate": lambda: _function("geometry.transform:rotate", angle=_ones(1) * 30),
        "resize": lambda: _function("geometry.transform:resize", size=24),
        "pyramid": lambda: _function("geometry.transform:build_pyramid", max_level=3),
        "equalize_clahe": lambda: Built(
            Calling(lambda x: named("kornia.enhance:equalize_clahe")(x, grid_size=(4, 4))),
            {"x": _PICTURE},
            {"batch": (1, 3)},
            dynamic=BATCH,
        ),
        "distance_transform": lambda: _function("contrib:distance_transform"),
        "soft_argmax": lambda: _function("geometry.subpix:spatial_soft_argmax2d"),
        "dexined": lambda: Built(made("kornia.models.dexined:DexiNed", pretrained=False), **_OF_32),
        "hardnet": lambda: Built(
            made("kornia.feature:HardNet", pretrained=False), {"x": floats(3, 1, 32, 32)}, {"batch": (1, 5)}
        ),
        "warp": lambda: Built(
            Calling(lambda x, m: named("kornia.geometry.transform:warp_perspective")(x, m, (20, 24))),
            {"x": _PICTURE, "matrix": floats(2, 3, 3)},
            {"batch": (1, 3)},
            dynamic={**BATCH, "matrix": {0: "batch"}},
        ),
    },
)


def _ones(*shape: int) -> Any:
    return made("torch:ones", *shape)


def _segmenting(path: str, **keywords: Any) -> Built:
    made_of = {"encoder_name": "resnet18", "encoder_weights": None, "classes": 3, **keywords}
    return Built(made(f"segmentation_models_pytorch:{path}", **made_of), **_OF_32)


segmentation_models_pytorch = library(
    "segmentation_models_pytorch",
    {
        "unet": lambda: _segmenting("Unet", decoder_attention_type="scse"),
        "unet_plus_plus": lambda: _segmenting("UnetPlusPlus"),
        "deeplab": lambda: _segmenting("DeepLabV3Plus"),
        "fpn": lambda: _segmenting("FPN", encoder_name="timm-efficientnet-b0"),
        "linknet": lambda: _segmenting("Linknet", encoder_name="mobilenet_v2"),
        "manet": lambda: _segmenting("MAnet"),
        "pan": lambda: _segmenting("PAN"),
        "pspnet": lambda: _segmenting("PSPNet"),
        "segformer": lambda: _segmenting("Segformer", encoder_name="mit_b0"),
        "upernet": lambda: _segmenting("UPerNet"),
    },
)


def _transformer(path: str, **keywords: Any) -> Built:
    return Built(made(f"vit_pytorch.{path}", num_classes=7, **keywords), **_SQUARE)


_VIT: Any = {"image_size": 64, "patch_size": 16, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}

vit_pytorch = library(
    "vit_pytorch",
    {
        "vit": lambda: _transformer("vit:ViT", **_VIT),
        "simple_vit": lambda: _transformer("simple_vit:SimpleViT", **_VIT),
        "deepvit": lambda: _transformer("deepvit:DeepViT", **_VIT),
        "cait": lambda: _transformer("cait:CaiT", cls_depth=1, **_VIT),
        "regionvit": lambda: _transformer(
            "regionvit:RegionViT", dim=(16, 16, 32, 32), depth=(1, 1, 1, 1), window_size=4
        ),
        "cct": lambda: _transformer(
            "cct:CCT", img_size=64, embedding_dim=32, n_conv_layers=2, num_layers=2, num_heads=2, mlp_ratio=2.0
        ),
        "mobile_vit": lambda: Built(
            made("vit_pytorch.mobile_vit:MobileViT", (64, 64), [16, 24, 32], [4, 4, 8, 8, 12, 12, 16, 16, 24, 24], 7),
            **_SQUARE,
        ),
        "max_vit": lambda: _transformer(
            "max_vit:MaxViT", dim_conv_stem=16, dim=16, dim_head=8, depth=(1, 1), window_size=4
        ),
    },
)

facenet_pytorch = library(
    "facenet_pytorch",
    {
        "inception": lambda: Built(
            made("facenet_pytorch:InceptionResnetV1", pretrained=None), {"x": floats(2, 3, 96, 96)}, {"batch": (1, 3)}
        ),
        "proposals": lambda: Built(
            made("facenet_pytorch.models.mtcnn:PNet", pretrained=False), **_PICTURES, dynamic=IMAGES
        ),
    },
)

efficientnet_pytorch = library(
    "efficientnet_pytorch",
    {
        "b0": lambda: Built(
            named("efficientnet_pytorch:EfficientNet").from_name("efficientnet-b0", num_classes=5), **_OF_32
        ),
    },
)


def _measured(module: Any) -> Built:
    return Built(
        module,
        {"x": floats(2, 3, 64, 80, low=0, high=1), "y": floats(2, 3, 64, 80, low=0, high=1)},
        {"batch": (1, 3), "height": (59, 96), "width": (64, 97)},
        dynamic=dict.fromkeys(("x", "y"), IMAGES["x"]),
    )


piqa = library(
    "piqa",
    {
        "ssim": lambda: _measured(made("piqa:SSIM")),
        "psnr": lambda: _measured(made("piqa:PSNR")),
        "gmsd": lambda: _measured(made("piqa:GMSD")),
        "haarpsi": lambda: _measured(made("piqa:HaarPSI")),
        "total_variation": lambda: Built(made("piqa:TV"), **_PICTURES, dynamic=IMAGES),
    },
)

lpips = library("lpips", {"alex": lambda: _measured(made("lpips:LPIPS", net="alex", pretrained=False, pnet_rand=True))})

pytorch_msssim = library(
    "pytorch_msssim", {"ssim": lambda: _measured(made("pytorch_msssim:SSIM", data_range=1.0, win_size=7))}
)


def _detecting(network: str, configuration: str) -> Built:
    module = made(f"ultralytics.nn.tasks:{network}", configuration, verbose=False)
    module.model[-1].dynamic = True  # Otherwise it keeps the anchors of the last size that it was called with.
    return Built(module, **_OF_32)


ultralytics = library(
    "ultralytics",
    {
        "yolo11": lambda: _detecting("DetectionModel", "yolo11n.yaml"),
        "yolov8_segmentation": lambda: _detecting("SegmentationModel", "yolov8n-seg.yaml"),
        "yolov8_poses": lambda: _detecting("PoseModel", "yolov8n-pose.yaml"),
    },
)
