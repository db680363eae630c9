"""Statements about images: layouts, kernels that lay their results anew, and writes through what may be a copy."""

from __future__ import annotations

__all__ = ["STATEMENTS_OF_IMAGES"]

_LAST = "memory_format=torch.channels_last"
_LAYOUTS = (
    f"v = v.contiguous({_LAST})", f"v = v.to({_LAST})", f"v = v.clone({_LAST})", "v = v.contiguous()", "v = v.mT",
    f"v = torch.empty_like(v, {_LAST}).fill_(2.0) + v", "v = v.movedim(1, -1).contiguous().movedim(-1, 1)",
    "v = v.permute(0, 2, 3, 1)", "v = v.permute(0, 3, 1, 2)", "v = v.transpose(1, 2)", "v = v.transpose(0, 1)",
    f"v = v[:, :1].contiguous({_LAST})", f"v = v[:, :, :1].contiguous({_LAST})", "v = v.expand(2, *v.shape)[0]",
    f"v = v.double().to({_LAST}).to(x.dtype)", "v = v.clone()", "v = v.unsqueeze(0).squeeze(0)",
)  # fmt: skip
_PARTS = (
    "v = v[:, :, ::2]", "v = v[..., 1:]", "v = v[..., :2]", "v = v[:, :1]", "v = v[:, -1:]", "v = v.mT[:, :, 1:].mT",
    "v = functional.pad(v, (1, 1))", "v = functional.pad(v, (0, 0, 1, 0))", "v = torch.cat([v, v], 2)",
    "v = torch.cat([v, v], 1)", "v = torch.cat([v, v[:, :1]], 1)", "v = torch.stack([v, v], 1)[:, 0]",
    "v = torch.stack([v, v], -1)[..., 0]", "v = torch.stack([v, v], 2).sum(2)", "v = v.repeat(1, 2, 1, 1)",
    "v = v.unflatten(1, (1, -1)).flatten(1, 2)", "v = v.index_select(1, torch.zeros(2, dtype=torch.long))",
)  # fmt: skip
_KERNELS = (
    "v = v.relu()", "v = v * 2 + 1", "v = v.abs().mul(v)", "v = v.softmax(1)", "v = v.cumsum(2)", "v = v.flip(2)",
    "v = functional.interpolate(v, scale_factor=2)", "v = functional.group_norm(v, 1)", "v = v.roll(1, 2)",
    "v = functional.max_pool2d(v, 3, 1, 1)", "v = functional.avg_pool2d(v, 3, 1, 1)", "v = v.sort(2)[0]",
    "v = functional.adaptive_avg_pool2d(v, 2)", "v = functional.adaptive_avg_pool2d(v, 1)", "v = v.tril()",
    "v = functional.conv_transpose2d(v, v.new_ones(v.shape[1], 2, 2, 2), stride=2)", "v = v.amax(2, keepdim=True)",
    "v = functional.conv2d(v, v.new_ones(2, v.shape[1], 1, 1))", "v = v.sum(1, keepdim=True)", "v = v.clamp(-1, 1)",
    "v = functional.conv2d(v, v.new_ones(2, v.shape[1], 3, 3), padding=1)", "v = torch.where(v > 0, v, v * 2)",
    "v = v + torch.ones(v.shape[-1], dtype=v.dtype)", "v = v + v.mean(1, keepdim=True)", "v = torch.zeros_like(v) + v",
    "v = torch.ones(v.shape[1], 1, 1, dtype=v.dtype) * v", "v = v * v.mean((2, 3), keepdim=True)",
    "v = v.new_zeros(v.shape) + v", "v = functional.pixel_shuffle(torch.cat([v] * 4, 1), 2)",
)  # fmt: skip
_WRITES = (
    "v.flatten().zero_()", "w = v.reshape(-1); w.add_(1)", "w = v.contiguous(); w.mul_(2)", "v.mul_(3)", "v.relu_()",
    "w = v.flatten(1); v.mul_(3); v = v + w.sum()", "w = v.flatten(2); w[:, 0] = 1", "v[:, :1] = 0.5",
    f"w = v.to({_LAST}); w.mul_(2)", f"w = v.contiguous({_LAST}); w.add_(1)", "w = v[:, :1].flatten(1); w.zero_()",
    "w = v.permute(0, 2, 3, 1).flatten(); w.zero_()", "w = v.permute(0, 2, 3, 1).contiguous(); w.add_(3)",
    "w = v.permute(0, 2, 3, 1).reshape(-1, v.shape[1]); w += 1", "w = v.reshape(v.shape[0], -1); w[:, :1] = 2",
    "w = v.mT.flatten(2); v.add_(1); v = v * w.sum()", "w = v.transpose(0, 1).reshape(v.shape[1], -1); w.mul_(2)",
    "w = v.ravel(); v[:, :1] = 0; v = v + w.sum()", "w = v.flatten(0, 1); w[0] = 5", "v[:, :, ::2].add_(1)",
    "w = v[:, :1].contiguous(); w.zero_()",
)  # fmt: skip
_QUESTIONS = (
    "v = v * 2 if v.is_contiguous() else v * 3", f"v = v * 2 if v.is_contiguous({_LAST}) else v * 3",
    "v = v * v.stride(1)", "v = v * v.stride(-1) + v.stride(0)", "v = v * 2 if v.contiguous() is v else v",
    "v = v * 2 if v.mT.is_contiguous() else v * 3",
)  # fmt: skip
#: The statements, by what they are about.
STATEMENTS_OF_IMAGES = {
    "layouts of images": _LAYOUTS, "parts of images": _PARTS, "kernels": _KERNELS, "writes": (*_WRITES, *_WRITES),
    "questions": _QUESTIONS,
}  # fmt: skip
