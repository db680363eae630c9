"""torch.div of integers with rounding_mode is computed in float32"""

import onnxruntime
import torch


class Program(torch.nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="floor")


ARGUMENTS = (
    torch.tensor([16777217]),
    torch.tensor([1]),
)
expected = Program()(*[each.clone() for each in ARGUMENTS])
try:
    torch.onnx.export(Program(), ARGUMENTS, "model.onnx", dynamo=True, opset_version=18, verbose=False)
    session = onnxruntime.InferenceSession("model.onnx")
    given = zip([each.name for each in session.get_inputs()], ARGUMENTS)
    got = torch.from_numpy(session.run(None, {name: value.numpy() for name, value in given})[0])
except Exception as error:
    print(type(error).__name__, str(error).strip().splitlines()[0][:200])
    raise SystemExit(1)
print("onnxruntime", got.dtype, tuple(got.shape), got.tolist())
print("torch      ", expected.dtype, tuple(expected.shape), expected.tolist())
same = got.dtype == expected.dtype and torch.equal(got, expected)
raise SystemExit(not same)
