"""Language models of transformers, exported as users call them, decode in onnxruntime what eager decodes."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest
import torch

import onnx_parity
from benchmarks.generation.decoding import equal_tokens
from benchmarks.generation.decoding import exported as models_of
from benchmarks.generation.models import ROWS, subject_of
from onnx_parity.exporter.errors import OnnxExporterWarning
from tests.zoo.language_models import (
    DECODERS,
    ENCODER_DECODERS,
    SHAPES,
    Session,
    chosen_by_torch,
    decoder,
    encoder_decoder,
    example,
)

# transformers imports torchvision if it is installed: see there how it has to be imported beside some builds of torch.
if importlib.util.find_spec("torchvision") is not None:
    importlib.import_module("onnx_parity.model_zoo.torchvision_import")
transformers: Any = pytest.importorskip("transformers", reason="needs transformers: install the extra 'zoo'")

PROMPT = torch.tensor([[5, 17, 42, 8], [7, 7, 91, 23]])
#: Those that run by default; the others take a few seconds each.
_QUICK = {"llama", "mistral", "mixtral"}


def exported(model: Any, arguments: dict[str, Any], shapes: Any = SHAPES, **options: Any) -> onnx_parity.ONNXProgram:
    return onnx_parity.export(model, kwargs=arguments, dynamic_shapes=shapes, **options)


@pytest.mark.parametrize("name", [n if n in _QUICK else pytest.param(n, marks=pytest.mark.slow) for n in DECODERS])
def test_decoding(name: str) -> None:
    model = decoder(name)
    arguments = example(model, transformers.DynamicCache())
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        program = exported(model, arguments)
    assert arguments["past_key_values"].get_seq_length() == 3
    assert program.input_names[:4] == (
        "input_ids", "attention_mask", "past_key_values.0.key", "past_key_values.0.value",
    )  # fmt: skip
    assert program.output_names[:3] == ("logits", "present.0.key", "present.0.value")
    wanted = chosen_by_torch(model, transformers.DynamicCache(), PROMPT, 32)
    assert Session(program).chosen(PROMPT, 32) == wanted
    prompt = {"input_ids": PROMPT, "attention_mask": torch.ones_like(PROMPT), "use_cache": True}
    first = program(**prompt, past_key_values=transformers.DynamicCache())
    torch.testing.assert_close(first.logits, model(**prompt).logits, rtol=1e-4, atol=1e-4)
    assert first.past_key_values.get_seq_length() == PROMPT.shape[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cache", "merged"), ROWS)
def test_generate_calls_exported_models(name: str, cache: str, merged: bool) -> None:
    """Prompts are padded at the left."""
    subject = subject_of(name, cache)
    models = models_of(subject, merged, opset=18)
    for batch in (1, 3):
        equal, count = equal_tokens(subject, models, batch, 24)
        assert equal == count


def test_verification_tries_sizes_that_fit_each_other() -> None:
    model = decoder("llama")
    exported(model, example(model, transformers.DynamicCache()), verify=True)


def test_a_static_cache_that_is_written_in_place() -> None:
    model = decoder("llama")
    cache = transformers.StaticCache(config=model.config, max_cache_len=40)
    arguments = {**example(model, cache), "attention_mask": None}
    program = exported(model, arguments, {**SHAPES, "attention_mask": None, "past_key_values": {0: "batch"}})
    assert {"past_key_values.0.key", "past_key_values.0.cumulative_length"} <= {*program.input_names}
    wanted = chosen_by_torch(model, transformers.DynamicCache(), PROMPT, 32)
    assert Session(program).chosen(PROMPT, 32) == wanted


@pytest.mark.parametrize(
    "name", ["mistral", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gemma2", "gemma3_text", "gpt_oss"))]
)
@pytest.mark.parametrize("past", [3, 11])
def test_a_cache_with_sliding_windows(name: str, past: int) -> None:
    """One model for the prompt, longer than the window of eight tokens or not, and for every further token."""
    model = decoder(name)
    arguments = example(model, transformers.DynamicCache(config=model.config), past=past)
    axes: list[dict[int, str]] = []
    for layer in arguments["past_key_values"].layers:
        keys = {0: "batch", 2: "min(all - sequence, 7)" if layer.is_sliding else "all - sequence"}
        axes += [keys, keys, {}] if layer.is_sliding else [keys, keys]
    shapes = {**SHAPES, "attention_mask": {0: "batch", 1: "all"}, "past_key_values": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        program = exported(model, arguments, shapes, verify=past > 8)
    session = Session(program)
    for prompt in (PROMPT, torch.arange(3, 39).reshape(3, 12), torch.arange(3, 11)[None]):
        wanted = chosen_by_torch(model, transformers.DynamicCache(config=model.config), prompt, 32)
        assert session.chosen(prompt, 32) == wanted
    further = example(model, transformers.DynamicCache(config=model.config), past=5, new=1)
    cache = program(**further).past_key_values
    assert cache.layers[0].cumulative_length == 6 and cache.layers[0].keys.shape[2] == 6


def test_a_cache_that_counts_the_tokens_of_a_window_is_refused_without_its_axis() -> None:
    model = decoder("mistral")
    for past in (3, 11):  # The window has eight tokens.
        arguments = example(model, transformers.DynamicCache(config=model.config), past=past)
        shapes = {**SHAPES, "attention_mask": {0: "batch", 1: "all"}}
        with pytest.raises(onnx_parity.CaptureError, match=r"past_key_values\.layers\[1\]\.cumulative_length"):
            exported(model, arguments, shapes)


def test_observed_calls_of_generate() -> None:
    model = decoder("llama")
    observer = onnx_parity.InputObserver()
    with observer(model):
        model.generate(PROMPT, max_new_tokens=4, do_sample=False)
    arguments = observer.infer_arguments()
    assert isinstance(arguments, dict)
    program = onnx_parity.export(
        model,
        kwargs=arguments,
        dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
    )
    assert all(row["SUCCESS"] for row in observer.check_discrepancies(program))


def test_a_mask_of_ones_stays_an_input_of_bert() -> None:
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=37
    )
    model = transformers.BertModel(config).eval()
    ids, mask = torch.randint(0, 99, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    program = onnx_parity.export(model, (ids, mask), dynamic_shapes=({1: "length"}, {1: "length"}), verify=True)
    padded = mask.clone()
    padded[0, 4:] = 0
    torch.testing.assert_close(program(ids, padded).last_hidden_state, model(ids, padded).last_hidden_state)


_PARTS = {"self_attention_cache": {0: "batch", 2: "past"}, "cross_attention_cache": {0: "batch", 2: "encoded"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_a_cache_of_an_encoder_and_a_decoder(name: str) -> None:
    model, encoded = encoder_decoder(name)
    mask = {} if name == "whisper" else {"attention_mask": torch.ones(2, 4, dtype=torch.int64)}
    with torch.no_grad():
        fixed = {"encoder_outputs": model.get_encoder()(encoded, **mask), **mask}

    def cache(count: int) -> Any:
        both = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
        with torch.no_grad():
            model(**fixed, decoder_input_ids=torch.zeros(2, count, dtype=torch.int64), past_key_values=both)
        return both

    def decoded(call: Any) -> list[torch.Tensor]:
        past, token, tokens = cache(1), torch.full((2, 1), 5), []
        for _ in range(32):
            with torch.no_grad():
                result = call(**fixed, decoder_input_ids=token, past_key_values=past, use_cache=True)
            past, token = result.past_key_values, result.logits[:, -1:].argmax(-1)
            tokens.append(token)
        return tokens

    program = onnx_parity.export(
        model,
        kwargs={**fixed, "decoder_input_ids": torch.full((2, 1), 5), "past_key_values": cache(3), "use_cache": True},
        dynamic_shapes={
            "encoder_outputs": {0: "batch", 1: "encoded"},
            **{key: {0: "batch", 1: "encoded"} for key in mask},
            "decoder_input_ids": {0: "batch"},
            "past_key_values": _PARTS,
            "use_cache": None,
        },
    )
    assert program.input_names[2 + len(mask)] == "past_key_values.0.decoder.key"
    assert {"logits", "present.1.encoder.value"} <= {*program.output_names}
    assert all(map(torch.equal, decoded(program), decoded(model)))
