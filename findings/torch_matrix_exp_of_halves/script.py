"""torch.linalg.matrix_exp of float16 is not finite"""

import torch

X = torch.tensor([[0.0, 1.0], [-1.0, 0.5]])

got = torch.linalg.matrix_exp(X.half())
expected = torch.linalg.matrix_exp(X).half()
print("got     ", got.tolist())
print("expected", expected.tolist())
raise SystemExit(not torch.allclose(got, expected, rtol=0.01))
