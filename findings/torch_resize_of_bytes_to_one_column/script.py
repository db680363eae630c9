"""torch interpolates bytes of more than four channels to one column wrongly"""

import torch
import torch.nn.functional as F

X = torch.arange(1200).remainder(251).to(torch.uint8).reshape(1, 6, 20, 10)

got = F.interpolate(X, (4, 1), mode="bilinear")
expected = torch.cat([F.interpolate(channel, (4, 1), mode="bilinear") for channel in X.split(1, 1)], 1)
print("first of six channels", got[0, 0, :, 0].tolist())
print("by itself            ", expected[0, 0, :, 0].tolist())
raise SystemExit(not torch.equal(got, expected))
