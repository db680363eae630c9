"""x // y of floats truncates"""

import onnxruntime
import torch


class Program(torch.nn.Module):
    def forward(self, x, y):
        return x // y


ARGUMENTS = (
    torch.tensor([-2.0]),
    torch.tensor([4.0]),
)
expected = Program()(*[each.clone() for each in ARGUMENTS])
try:
    torch.onnx.export(Program(), ARGUMENTS, "model.onnx", dynamo=False, opset_version=14)
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
