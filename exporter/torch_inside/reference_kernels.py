"""torch's reference implementations of operators in Python, of which parts are recorded instead of the operators."""

from __future__ import annotations

from torch._decomp.decompositions import _rnn_helper as run_layers
from torch._decomp.decompositions import gather_params, one_layer_lstm
from torch._refs.linalg import matrix_norm

__all__ = ["gather_params", "matrix_norm", "one_layer_lstm", "run_layers"]
