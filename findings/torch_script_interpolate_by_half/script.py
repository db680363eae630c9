"""F.interpolate with mode='nearest' and a fractional factor fails in onnxruntime at opset 9"""

import onnxruntime
import torch


class Program(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=0.5, mode="nearest")


ARGUMENTS = (torch.ones(1, 1, 2, 2),)
expected = Program()(*[each.clone() for each in ARGUMENTS])
try:
    torch.onnx.export(Program(), ARGUMENTS, "model.onnx", dynamo=False, opset_version=9)
    session = onnxruntime.InferenceSession("model.onnx")
    given = zip([each.name for each in session.get_inputs()], ARGUMENTS)
    got = torch.from_numpy(session.run(None, {name: value.numpy() for name, value in given})[0])
except Exception as error:
    print(type(error).__name__, str(error).strip().splitlines()[0][:200])
    raise SystemExit(1)
print("onnxruntime", got.dtype, tuple(got.shape), got.tolist())
print("torch      ", expected.dtype, tuple(expected.shape), expected.tolist())
same = (got.dtype, got.shape) == (expected.dtype, expected.shape) and torch.allclose(got, expected, equal_nan=True)
raise SystemExit(not same)
