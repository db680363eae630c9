"""Times language models beside the files of onnxruntime-genai's builder: `python -m benchmarks.latency.decoding`.

Needs transformers and onnxruntime-genai, and torchao for weights of four bits. The weights are random.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnxruntime
import torch
import typer
from numpy.typing import NDArray

import onnx_parity
from benchmarks.latency.loading import Cost, cost_of, session_of
from benchmarks.options import choose

#: Twelve layers of a width of 1,024, with 16 heads; llama's has 200 million weights.
_SIZES: Mapping[str, int] = {
    "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 4096,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_OWN_SIZES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "gemma3_text": {},
    "phi3": {},
    "mixtral": {"intermediate_size": 1024, "num_local_experts": 4},
}
_SHAPES = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "past + sequence"},
    "past_key_values": {0: "batch", 2: "past"},
    "use_cache": None,
}
_GROUP = 32
#: The tokens for which a buffer has room.
_ROOM = 2048
#: The least correlation of the logits of both files. Weights of four bits are not rounded in the same way.
_ALIKE = {False: 0.99, True: 0.5}


def main(
    models: Annotated[list[str] | None, typer.Option(help="Architectures by their names or patterns.")] = None,
    four_bits: Annotated[bool, typer.Option("--four-bits", help="Weights of four bits, in blocks of 32.")] = False,
    past: Annotated[str, typer.Option(help="How many tokens there are before the step.")] = "16,512,1500",
    prompt: Annotated[int, typer.Option(help="The tokens of a prompt, without any before.")] = 256,
    rounds: Annotated[int, typer.Option(min=1, help="How often both files run, in turn.")] = 15,
    opset: Annotated[int, typer.Option(help="The opset of the exported model.")] = 23,
    threads: Annotated[int, typer.Option(min=1, help="The threads that run a step or a prompt.")] = 2,
    target: Annotated[str, typer.Option(help="The target of the export; nothing for ONNX's operators alone.")] = "",
) -> None:
    """Compare a step, a prompt, loading and memory. A ratio is the median of those of the rounds.

    With one thread, times of steps and prompts are processor time, which other programs hardly disturb.

    With a target, also where the new tokens are written into the buffers of the cache, as onnxruntime-genai has it.
    """
    import_module("onnx_parity.model_zoo.torchvision_import")
    for name in choose("--models", models, _OWN_SIZES):
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
            one, two, theirs = (Path(folder) / each / "model.onnx" for each in ("one", "two", "theirs"))
            _write(name, one, two, theirs, four_bits, opset, target)
            kind = f"{name}, four bits" if four_bits else name
            _print(kind, "load, with weights in the same file", [cost_of(each, _run_step) for each in (one, theirs)])
            _print(kind, "load, with weights in a second file", [cost_of(each, _run_step) for each in (two, theirs)])
            for room, where in [(0, ""), (_ROOM, ", in one buffer")] if target else [(0, "")]:
                for before, new in [*((int(each), 1) for each in past.split(",")), (0, prompt)]:
                    times = _in_both_orders(two, theirs, before, new, rounds, _ALIKE[four_bits], room, threads)
                    what = f"a step after {before}{where}" if before else f"a prompt of {new}{where}"
                    _print(kind, what, [Cost(statistics.median(each)) for each in times], _ratio(times))


def _print(kind: str, what: str, found: Sequence[Cost], ratio: float | None = None) -> None:
    shown = "".join(
        f"{1000 * each.seconds:>8.1f} ms" + (f" {each.peak / 1e6:.0f} MB" if each.peak else "") for each in found
    )
    ratio = found[0].seconds / found[1].seconds if ratio is None else ratio
    print(f"{kind:<22}{what:<36}{shown}{ratio:>8.2f}", flush=True)


def _write(name: str, one: Path, two: Path, theirs: Path, four_bits: bool, opset: int, target: str) -> None:
    transformers = import_module("transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**_SIZES, **_OWN_SIZES[name]})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for path in (one, two, theirs):
        path.parent.mkdir()
    model.save_pretrained(theirs.parent / "checkpoint")
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        _build(theirs.parent, "int4" if four_bits else "fp32")
    if four_bits:
        quantization = import_module("torchao.quantization")
        per_group = import_module("torchao.quantization.granularity").PerGroup(_GROUP)
        torch_itself: Any = torch  # The types of torch do not have int4.
        quantization.quantize_(
            model, quantization.IntxWeightOnlyConfig(weight_dtype=torch_itself.int4, granularity=per_group)
        )
    cache = transformers.DynamicCache()
    with torch.no_grad():
        model(input_ids=torch.randint(3, 99, (2, 3)), past_key_values=cache, use_cache=True)
    arguments = {
        "input_ids": torch.randint(3, 99, (2, 5)),
        "attention_mask": torch.ones(2, 8, dtype=torch.int64),
        "past_key_values": cache,
        "use_cache": True,
    }
    program = onnx_parity.export(
        model, kwargs=arguments, dynamic_shapes=_SHAPES, opset_version=opset, target=target or None
    )
    program.save(one)
    program.save(two, external_data=True)


def _build(folder: Path, precision: str) -> None:
    """Let the builder write `model.onnx` of the checkpoint there. It wants a tokenizer."""
    tokenizers, models = import_module("tokenizers"), import_module("tokenizers.models")
    words = {f"word{number}": number for number in range(_SIZES["vocab_size"])}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(words, unk_token="word0"))
    fast = import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="word2")
    fast.save_pretrained(folder / "checkpoint")
    builder = import_module("onnxruntime_genai.models.builder")
    checkpoint, out, made = str(folder / "checkpoint"), str(folder), str(folder / "cache")
    options = builder.parse_extra_options("", checkpoint, out, precision, "cpu", made, None)
    builder.create_model("", checkpoint, out, precision, "cpu", made, **options)


def _run_step(session: onnxruntime.InferenceSession) -> None:
    session.run(None, _feeds(session, 16, 1))


def _feeds(session: onnxruntime.InferenceSession, past: int, new: int) -> dict[str, NDArray[Any]]:
    numbers = {
        "input_ids": np.random.default_rng(0).integers(3, 99, (1, new)),
        "attention_mask": np.ones((1, past + new), np.int64),
        "position_ids": np.arange(past, past + new)[None],
    }
    cache = (1, _SIZES["num_key_value_heads"], past, _SIZES["head_dim"])
    drawn = {each.name: np.random.default_rng(zlib.crc32(each.name.encode())) for each in session.get_inputs()}
    return {
        name: numbers[name] if name in numbers else draw.normal(scale=0.1, size=cache).astype(np.float32)
        for name, draw in drawn.items()
    }


class _File:
    """A file in a process of its own, so that no threads of another session are in its way."""

    def __init__(self, path: Path, threads: int) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._path = path
        self._threads = threads

    def prepare(self, past: int, new: int, room: int) -> NDArray[Any]:
        """Get a run ready, and return the logits of the last token."""
        logits: NDArray[Any] = self._pool.submit(_prepare, self._path, past, new, room, self._threads).result()
        return logits

    def seconds(self) -> float:
        return self._pool.submit(_seconds).result()

    def close(self) -> None:
        self._pool.shutdown()


#: In the process of a file: what it runs.
_prepared: dict[str, Any] = {}


def _prepare(path: Path, past: int, new: int, room: int, threads: int) -> NDArray[Any]:
    if "session" not in _prepared:
        _prepared["session"] = session_of(path, threads)
        _prepared["clock"] = time.process_time if threads == 1 else time.perf_counter
    session = _prepared["session"]
    _prepared["binding"] = binding = _bound(session, _feeds(session, past, new), room)
    session.run_with_iobinding(binding)
    names = [each.name for each in session.get_outputs()]
    logits: NDArray[Any] = binding.get_outputs()[names.index("logits")].numpy()[0, -1]
    return logits


def _seconds() -> float:
    clock: Callable[[], float] = _prepared["clock"]
    start = clock()
    _prepared["session"].run_with_iobinding(_prepared["binding"])
    return clock() - start


def _in_both_orders(
    mine: Path, other: Path, past: int, new: int, rounds: int, alike: float, room: int, threads: int
) -> Sequence[Sequence[float]]:
    """The seconds of the runs of both files. Each is loaded first for half of them: that one is slower by 6 to 15 %,
    whichever it is."""
    times = _times((mine, other), past, new, (rounds + 1) // 2, alike, room, threads)
    swapped = _times((other, mine), past, new, (rounds + 1) // 2, alike, room, threads)
    return [[*one, *two] for one, two in zip(times, reversed(swapped), strict=True)]


def _ratio(times: Sequence[Sequence[float]]) -> float:
    """The geometric mean of the medians of both orders."""
    ratios = [mine / other for mine, other in zip(*times, strict=True)]
    half = len(ratios) // 2
    return math.sqrt(statistics.median(ratios[:half]) * statistics.median(ratios[half:]))


def _times(
    paths: Sequence[Path], past: int, new: int, rounds: int, alike: float, room: int, threads: int
) -> Sequence[Sequence[float]]:
    """The seconds of each file's runs, which take turns, and so does who is first. The results have to be alike."""
    files = [_File(path, threads) for path in paths]
    results = [each.prepare(past, new, room) for each in files]
    if (found := np.corrcoef(results)[0, 1]) < alike:
        raise AssertionError(f"the logits of the two files have a correlation of {found:.3f}")
    times: list[list[float]] = [[] for _ in files]
    for number in range(rounds):
        turns = [*zip(files, times, strict=True)]
        for file, seconds in turns if number % 2 else turns[::-1]:
            seconds.append(file.seconds())
    for each in files:
        each.close()
    return times


def _bound(session: onnxruntime.InferenceSession, feeds: Mapping[str, NDArray[Any]], room: int) -> Any:
    """Inputs and outputs of a run. With room for so many tokens, a cache is a buffer into which the new ones go."""
    binding = session.io_binding()
    buffers = {}
    for name, given in feeds.items():
        if room and given.ndim == 4:
            whole = np.zeros((*given.shape[:2], room, given.shape[3]), given.dtype)
            whole[:, :, : given.shape[2]] = given
            given = whole
        buffers[name] = onnxruntime.OrtValue.ortvalue_from_numpy(given)
        binding.bind_ortvalue_input(name, buffers[name])
    for output in session.get_outputs():
        buffer = buffers.get(output.name.replace("present", "past_key_values"))
        if room and buffer is not None:
            binding.bind_ortvalue_output(output.name, buffer)
        else:
            binding.bind_output(output.name)
    return binding


if __name__ == "__main__":
    typer.run(main)
