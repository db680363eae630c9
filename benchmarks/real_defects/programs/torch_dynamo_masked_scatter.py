"""torch.onnx writes the values of masked_scatter in another order."""

import numpy as np
import onnxruntime
import torch


class Program(torch.nn.Module):
    def forward(self, embeds: torch.Tensor, mask: torch.Tensor, inject: torch.Tensor) -> torch.Tensor:
        return embeds.masked_scatter(mask.unsqueeze(-1), inject)


mask = torch.zeros(1, 8, dtype=torch.bool)
mask[0, :4] = True
ARGUMENTS = (torch.zeros(1, 8, 3), mask, torch.arange(12.0).reshape(4, 3) + 1)
torch.onnx.export(Program(), ARGUMENTS, "model.onnx", opset_version=18, dynamo=True, external_data=False)
session = onnxruntime.InferenceSession("model.onnx")
feeds = {each.name: value.numpy() for each, value in zip(session.get_inputs(), ARGUMENTS, strict=True)}
got = session.run(None, feeds)[0]
expected = Program()(*ARGUMENTS).numpy()
print("got     ", got.tolist())
print("expected", expected.tolist())
raise SystemExit(not np.allclose(got, expected))
