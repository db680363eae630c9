"""TorchScript modules: with recurrent layers and losses, and with attributes that `forward` assigns to.

The models run at other values and sizes too. The annotations are those that TorchScript's compiler needs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnx_parity.harness.case import floats, ints, model, op, scripted

_STEPS = {"x": {0: "steps", 1: "batch"}}
_ROWS = {"x": {0: "rows"}}
_PAIRED = {"x0": {0: "rows"}, "x1": {0: "rows"}}

# --- recurrent layers -------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, kind: str, **options: object) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(4, 5, **options)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)[0]
        return output


class TwoCalls(nn.Module):
    """A state handed on from one call to the next, and a projection between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(4, 4, bidirectional=True)
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output, state = self.layers(x)
        output, (hidden, _) = self.layers(self.linear(output), state)
        return output, hidden


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.GRU(4, 5)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        output, _ = self.layers(packed)
        return nn.utils.rnn.pad_packed_sequence(output)[0]


def _recurrent(kind: str, **options: object) -> nn.Module:
    made: nn.Module = torch.jit.script(Recurrent(kind, **options))
    return made


script_recurrent = model(_recurrent, floats(3, 2, 4), kind=["LSTM", "GRU", "RNN"], dynamic=_STEPS, tier="smoke")
script_recurrent_relu = model(
    _recurrent, floats(3, 2, 4), kind="RNN", nonlinearity="relu", num_layers=2, dynamic=_STEPS, tier="smoke"
)
script_recurrent_batch_first = model(
    _recurrent, floats(2, 3, 4), kind=["LSTM", "GRU"], batch_first=True, dynamic=_STEPS, tier="smoke"
)
script_recurrent_twice = model(lambda: torch.jit.script(TwoCalls()), floats(3, 2, 4), dynamic=_STEPS, tier="smoke")
script_recurrent_packed = model(
    lambda: torch.jit.script(Packed()), floats(5, 3, 4), ints(3, low=1, high=6), tier="smoke"
)

# --- attention --------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """Rows with padding at the end, which torch's fast path takes out, or at the start."""

    def __init__(self, at_start: bool = False, activation: str = "relu", norm_first: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 6, batch_first=True, activation=activation, norm_first=norm_first)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=not norm_first)
        self.at_start = at_start

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(x.size(1)) >= lengths.unsqueeze(1)
        encoded: Tensor = self.layers(x, src_key_padding_mask=padding.flip(1) if self.at_start else padding)
        return encoded


class Attention(nn.Module):
    def __init__(self, average: bool) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, batch_first=True)
        self.average = average

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        excluded = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        output, weights = self.layer(x, x, x, attn_mask=excluded, average_attn_weights=self.average)
        return output, weights


def _encoder(at_start: bool = False, activation: str = "relu", norm_first: bool = False) -> nn.Module:
    made: nn.Module = torch.jit.script(Encoder(at_start, activation, norm_first).eval())
    return made


_BATCH = {"x0": {0: "batch", 1: "length"}, "x1": {0: "batch"}}

script_encoder = model(_encoder, floats(2, 5, 8), ints(2, low=1, high=6), at_start=[False, True], dynamic=_BATCH)
script_encoder_norm_first = model(
    _encoder, floats(2, 5, 8), ints(2, low=1, high=6), activation="gelu", norm_first=True, dynamic=_BATCH
)
traced_encoder = model(Encoder, floats(2, 5, 8), ints(2, low=1, high=6), at_start=[False, True], dynamic=_BATCH)
script_attention = model(
    lambda average: torch.jit.script(Attention(average).eval()), floats(2, 5, 8), average=[True, False],
    dynamic={"x": {0: "batch", 1: "length"}},
)  # fmt: skip

# --- calls ------------------------------------------------------------------------------------------------------------


class Forks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.jit.fork(self.linear, x)
        others: list[torch.jit.Future[Tensor]] = []
        for i in range(3):
            others.append(torch.jit.fork(torch.add, x, i))
        y: Tensor = torch.jit.wait(first)
        for other in others:
            y = y * other.wait()
        return y


def _calling_an_interface() -> nn.Module:
    """Only the object that is assigned tells which method is called."""

    @torch.jit.interface
    class Activation(nn.Module):
        def forward(self, input: Tensor) -> Tensor:  # type: ignore[empty-body]
            pass

    class Activates(nn.Module):
        activation: Activation

        def __init__(self) -> None:
            super().__init__()
            self.activation = nn.Hardtanh()  # type: ignore[assignment]

        def forward(self, x: Tensor) -> Tensor:
            if bool(x.sum() > 0):
                x = self.activation.forward(x)
            return x - 1

    made: nn.Module = torch.jit.script(Activates())
    return made


def _selecting_modules() -> nn.Module:
    """Modules of different classes are selected by a number and by a name."""

    @torch.jit.interface
    class Activation(nn.Module):
        def forward(self, input: Tensor) -> Tensor:  # type: ignore[empty-body]
            pass

    class Selects(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.listed = nn.ModuleList([nn.Hardtanh(), nn.Softplus(), nn.ELU()])
            self.named = nn.ModuleDict({"tanh": nn.Hardtanh(), "elu": nn.ELU()})

        def forward(self, x: Tensor, name: str = "elu") -> Tensor:
            for number in range(3):
                listed: Activation = self.listed[number]  # type: ignore[assignment]
                x = listed.forward(x)
            named: Activation = self.named[name]  # type: ignore[assignment]
            return x - named.forward(x - 1)

    made: nn.Module = torch.jit.script(Selects())
    return made


script_selects_modules = model(_selecting_modules, floats(4, 3), dynamic=_ROWS)
script_forks = model(lambda: torch.jit.script(Forks()), floats(4, 3), dynamic=_ROWS)
script_interface = model(_calling_an_interface, floats(4, 3), dynamic=_ROWS)

# --- losses -----------------------------------------------------------------------------------------------------------


@scripted
def binary_cross_entropy_with_logits(x: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, y.sigmoid())


@scripted
def binary_cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none")


@scripted
def mean_squared_error(x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(x, y)


@scripted
def embedding_bag(indices: Tensor, factors: Tensor) -> Tensor:
    weight = torch.arange(20, dtype=factors.dtype).view(10, 2)
    return F.embedding_bag(indices, weight, per_sample_weights=factors, mode="sum")


script_bce_with_logits = op(binary_cross_entropy_with_logits, floats(5, 2), floats(5, 2), dynamic=_PAIRED)
script_bce = op(binary_cross_entropy, floats(5, 2), floats(5, 2), dynamic=_PAIRED)
script_mse = op(mean_squared_error, floats(5, 2), floats(5, 2), dynamic=_PAIRED)
script_embedding_bag = op(embedding_bag, ints(4, 3, high=10), floats(4, 3), dynamic=_PAIRED)

# --- attributes that are assigned to ----------------------------------------------------------------------------------


class Assigning(nn.Module):
    """Reads what it assigned in the same run; an ONNX model keeps nothing from one run to the next."""

    items: list[Tensor]
    found: Tensor | None
    total: Tensor
    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("total", torch.ones(3))
        self.kept = torch.zeros(3)
        self.items = [torch.zeros(3)]
        self.numbers = [1, 2]
        self.found = None
        self.scale = 2

    def start(self, x: Tensor) -> None:
        """Set the attributes as before the first run, since torch keeps what a run assigned."""
        self.total = torch.ones(3, dtype=x.dtype, device=x.device)
        self.kept = torch.zeros(3, dtype=x.dtype, device=x.device)
        self.items = [self.kept]
        self.numbers = [1, 2]
        self.found = None
        self.scale = 2


class Replaces(Assigning):
    """Replaces attributes of itself and of a submodule: a buffer, and a tensor that is written to afterwards."""

    def forward(self, x: Tensor) -> Tensor:
        self.start(x)
        self.kept = x.sum(0)
        self.total = self.kept * 2
        self.total[0] = 7.0
        self.linear.bias = self.linear.bias
        self.scale += x.size(0)
        product: Tensor = self.linear(x) * self.kept + self.total * self.scale
        return product


class InBranches(Assigning):
    def forward(self, x: Tensor) -> Tensor:
        self.start(x)
        if bool(x.sum() > 0):
            self.kept = x.sum(0)
            self.found = x * 2
        else:
            self.kept = self.kept + 1
        found = self.found
        if found is None:
            return x * self.kept
        return found - self.kept


class InLoops(Assigning):
    def forward(self, x: Tensor) -> Tensor:
        self.start(x)
        for i in range(x.size(0)):
            self.kept = self.kept + x[i]
            for j in range(2):
                if bool(x[i].sum() > 0):
                    self.kept = self.kept * 1.5
                self.kept[j] += 1
            self.scale += 1
        return x * self.kept + self.scale


class InLists(Assigning):
    def forward(self, x: Tensor) -> Tensor:
        self.start(x)
        self.items = [x[0], x[0] * 2]
        self.numbers.append(3)
        self.numbers[0] = 5
        for i in range(x.size(0)):
            self.items.append(self.items[-1] + x[i] * sum(self.numbers))
        return torch.stack(self.items)


class InTwoCalls(nn.Module):
    """A traced module that calls a script twice."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = torch.jit.script(Replaces())

    def forward(self, x: Tensor) -> Tensor:
        first: Tensor = self.counting(x)
        second: Tensor = self.counting(first * 0.1)
        return first + second


script_assigns = model(lambda: torch.jit.script(Replaces()), floats(4, 3), dynamic=_ROWS, tier="smoke")
script_assigns_in_branches = model(lambda: torch.jit.script(InBranches()), floats(4, 3), dynamic=_ROWS, tier="smoke")
script_assigns_in_loops = model(lambda: torch.jit.script(InLoops()), floats(4, 3), dynamic=_ROWS, tier="smoke")
script_assigns_lists = model(lambda: torch.jit.script(InLists()), floats(4, 3), dynamic=_ROWS, tier="smoke")
script_assigns_in_calls = model(InTwoCalls, floats(4, 3), dynamic=_ROWS, tier="smoke")
