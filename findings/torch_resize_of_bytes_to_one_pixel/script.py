"""torch does not interpolate bytes of three channels to one pixel"""

import torch
import torch.nn.functional as F

X = torch.arange(600).remainder(251).to(torch.uint8).reshape(1, 3, 20, 10)

try:
    got = F.interpolate(X, (1, 1), mode="bilinear")
except RuntimeError as error:
    raise SystemExit(f"RuntimeError: {str(error)[:66]}")
expected = F.interpolate(X.double(), (1, 1), mode="bilinear")
print("got     ", got.flatten().tolist())
print("expected", expected.flatten().tolist())
raise SystemExit((got.double() - expected).abs().max().item() > 1)
