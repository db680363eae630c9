"""Sequences: transformers with approximations of attention, state spaces, tagging."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, ints
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import BATCH, Calling, library, made, named

_STEPS: Any = {"sizes": {"batch": (1, 3), "time": (7, 31)}, "dynamic": {"x": {0: "batch", 1: "time"}}}
_TOKENS: Any = {"inputs": {"x": ints(2, 12, high=50)}, **_STEPS}
_FEATURES: Any = {"inputs": {"x": floats(2, 16, 32)}, **_STEPS}


def _language(**layers: Any) -> Built:
    decoder = made("x_transformers:Decoder", dim=32, depth=2, heads=2, attn_dim_head=16, **layers)
    return Built(
        made("x_transformers:TransformerWrapper", num_tokens=50, max_seq_len=64, attn_layers=decoder), **_TOKENS
    )


x_transformers = library(
    "x_transformers",
    {
        "rotary": lambda: _language(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True),
        "alibi": lambda: _language(alibi_pos_bias=True, alibi_num_heads=1),
        "relative": lambda: _language(rel_pos_bias=True),
        "dynamic_positions": lambda: _language(dynamic_pos_bias=True, dynamic_pos_bias_log_distance=True),
        "talking_heads": lambda: _language(attn_pre_talking_heads=True, attn_qk_norm=True),
        "sparse": lambda: _language(attn_sparse_topk=4),
        "shifted": lambda: _language(shift_tokens=1, residual_attn=True),
        "flash": lambda: _language(attn_flash=True, attn_one_kv_head=True),
        "encoder": lambda: Built(
            made(
                "x_transformers:ContinuousTransformerWrapper",
                dim_in=32,
                dim_out=8,
                max_seq_len=64,
                attn_layers=made("x_transformers:Encoder", dim=32, depth=1, heads=2, attn_dim_head=16),
            ),
            **_FEATURES,
        ),
        "images": lambda: Built(
            made(
                "x_transformers:ViTransformerWrapper",
                image_size=32,
                patch_size=8,
                num_classes=5,
                attn_layers=made("x_transformers:Encoder", dim=32, depth=1, heads=2),
            ),
            {"x": floats(2, 3, 32, 32)},
            {"batch": (1, 3)},
        ),
    },
)

perceiver_pytorch = library(
    "perceiver_pytorch",
    {
        "perceiver": lambda: Built(
            made(
                "perceiver_pytorch:Perceiver",
                input_channels=8,
                input_axis=2,
                num_freq_bands=3,
                max_freq=10.0,
                depth=1,
                num_latents=8,
                latent_dim=16,
                cross_dim_head=8,
                latent_dim_head=8,
                latent_heads=2,
                num_classes=5,
            ),
            {"x": floats(2, 12, 14, 8)},
            {"batch": (1, 3), "height": (7, 17)},
            dynamic={"x": {0: "batch", 1: "height"}},
        ),
        "perceiver_io": lambda: Built(
            made(
                "perceiver_pytorch:PerceiverIO",
                dim=32,
                queries_dim=16,
                depth=1,
                num_latents=8,
                latent_dim=16,
                cross_dim_head=8,
                latent_dim_head=8,
            ),
            **_FEATURES,
        ),
    },
)

performer_pytorch = library(
    "performer_pytorch",
    {
        "language": lambda: Built(
            made("performer_pytorch:PerformerLM", num_tokens=50, max_seq_len=64, dim=32, depth=1, heads=2, dim_head=16),
            **_TOKENS,
        ),
    },
)

local_attention = library(
    "local_attention",
    {
        "language": lambda: Built(
            made(
                "local_attention:LocalTransformer",
                num_tokens=50,
                dim=32,
                depth=1,
                heads=2,
                dim_head=16,
                local_attn_window_size=8,
                max_seq_len=64,
            ),
            **_TOKENS,
        ),
    },
)

linformer = library(
    "linformer",
    {
        "transformer": lambda: Built(
            made("linformer:Linformer", dim=32, seq_len=16, depth=1, heads=2, k=8),
            {"x": floats(2, 16, 32)},
            {"batch": (1, 3)},
        ),
    },
)

nystrom_attention = library(
    "nystrom_attention",
    {
        "transformer": lambda: Built(
            made("nystrom_attention:Nystromformer", dim=32, dim_head=16, heads=2, depth=1, num_landmarks=4),
            {"x": floats(2, 16, 32)},
            # It pads what its landmarks do not divide.
            {"batch": (1, 3), "time": (12, 32)},
            dynamic=_STEPS["dynamic"],
        ),
    },
)

mambapy = library(
    "mambapy",
    {
        "mamba": lambda: Built(
            made("mambapy.mamba:Mamba", made("mambapy.mamba:MambaConfig", d_model=16, n_layers=1, d_state=4)),
            {"x": floats(2, 16, 16)},
            **_STEPS,
        ),
        "sequential": lambda: Built(
            made(
                "mambapy.mamba:Mamba",
                made("mambapy.mamba:MambaConfig", d_model=16, n_layers=1, d_state=4, pscan=False),
            ),
            {"x": floats(2, 12, 16)},
            **_STEPS,
        ),
    },
)

torchcrf = library(
    "torchcrf",
    {
        "likelihood": lambda: Built(
            made("torchcrf:CRF", 5, batch_first=True),
            {"x": floats(2, 9, 5), "tags": ints(2, 9, high=5)},
            {"batch": (1, 3), "time": (2, 13)},
            dynamic={name: {0: "batch", 1: "time"} for name in ("x", "tags")},
        ),
    },
)

rotary_embedding_torch = library(
    "rotary_embedding_torch",
    {
        "rotated": lambda: Built(
            Calling(lambda r, x: r.rotate_queries_or_keys(x), made("rotary_embedding_torch:RotaryEmbedding", dim=8)),
            {"x": floats(2, 2, 12, 16)},
            {"batch": (1, 3), "time": (7, 31)},
            dynamic={"x": {0: "batch", 2: "time"}},
        ),
    },
)

open_clip = library(
    "open_clip",
    {
        "text_and_images": lambda: Built(
            made(
                "open_clip.model:CLIP",
                embed_dim=16,
                vision_cfg={"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
                text_cfg={"context_length": 12, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
            ),
            {"x": floats(2, 3, 32, 32), "text": ints(2, 12, high=50)},
            {"batch": (1, 3)},
            dynamic={**BATCH, "text": {0: "batch"}},
        ),
    },
)

tensordict = library(
    "tensordict",
    {
        "network": lambda: Built(
            Calling(
                lambda net, x: net(named("tensordict:TensorDict")({"x": x}, [x.shape[0]]))["y"],
                made("tensordict.nn:TensorDictModule", made("torch.nn:Linear", 8, 3), in_keys=["x"], out_keys=["y"]),
            ),
            {"x": floats(2, 8)},
            {"batch": (1, 3)},
        ),
    },
)
