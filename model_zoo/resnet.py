"""ResNet (He et al., "Deep residual learning for image recognition", 2015)."""

from __future__ import annotations

from onnx_parity.harness.case import BATCH, image, model
from onnx_parity.model_zoo.torchvision_import import torchvision

_ANY_IMAGE = {"x": {0: "batch", 2: "height", 3: "width"}}
_SIZES = {"height": [32, 96], "width": [96, 48]}

resnet18 = model(torchvision.models.resnet18, image(64), dynamic=BATCH)
resnet50 = model(torchvision.models.resnet50, image(64), dynamic=BATCH)
resnet18_any_image = model(torchvision.models.resnet18, image(64), dynamic=_ANY_IMAGE, sizes=_SIZES)
resnet18_training = model(torchvision.models.resnet18, image(64), dynamic=BATCH, sizes={"batch": [3]}, train=True)
resnet50_full_size = model(torchvision.models.resnet50, image(224), dynamic=BATCH, tier="full")
resnet101 = model(torchvision.models.resnet101, image(64), dynamic=BATCH, tier="full")
resnext50_32x4d = model(torchvision.models.resnext50_32x4d, image(64), dynamic=BATCH, tier="full")
wide_resnet50_2 = model(torchvision.models.wide_resnet50_2, image(64), dynamic=BATCH, tier="full")
