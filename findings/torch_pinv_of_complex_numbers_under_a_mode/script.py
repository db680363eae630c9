"""Under a dispatch mode, torch.linalg.pinv and the residuals of torch.linalg.lstsq are wrong for complex numbers"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

A = torch.complex(torch.arange(10.0).reshape(5, 2), torch.arange(10.0).reshape(5, 2).cos())
B = torch.complex(torch.arange(5.0).reshape(5, 1).sin(), torch.ones(5, 1))


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def results():
    inverse = torch.linalg.pinv(A)
    distance = (A @ inverse @ A - A).abs().max().item()
    return round(distance, 2), round(torch.linalg.lstsq(A, B, driver="gelsd").residuals.item(), 2)


with Mode():
    got = results()
expected = results()
print("distance of A @ pinv(A) @ A from A, and residual, under a mode:", got)
print("without one:", expected)
raise SystemExit(got != expected)
