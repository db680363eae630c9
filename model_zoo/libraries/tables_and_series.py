"""Tables, series of time, and policies of reinforcement learning."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, ints
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import BATCH, Calling, library, made

_ROWS: Any = {"sizes": {"batch": (1, 7)}}
_TABLE: Any = {"inputs": {"x": floats(4, 6)}, **_ROWS}
_MIXED: Any = {
    "inputs": {"categories": ints(4, 3, high=4), "x": floats(4, 5)},
    "dynamic": {**BATCH, "categories": {0: "batch"}},
    **_ROWS,
}
_SERIES: Any = {
    "inputs": {"x": floats(3, 24, 4)},
    "sizes": {"batch": (1, 5), "time": (19, 31)},
    "dynamic": {"x": {0: "batch", 1: "time"}},
}

pytorch_tabnet = library(
    "pytorch_tabnet",
    {
        "tabnet": lambda: Built(
            made("pytorch_tabnet.tab_network:TabNet", 6, 3, n_d=4, n_a=4, group_attention_matrix=made("torch:eye", 6)),
            **_TABLE,
        ),
        "sparsemax": lambda: Built(made("pytorch_tabnet.sparsemax:Sparsemax"), **_TABLE),
        "entmax": lambda: Built(made("pytorch_tabnet.sparsemax:Entmax15"), **_TABLE),
    },
)

tab_transformer_pytorch = library(
    "tab_transformer_pytorch",
    {
        "ft": lambda: Built(
            made(
                "tab_transformer_pytorch:FTTransformer",
                categories=(4, 4, 4),
                num_continuous=5,
                dim=16,
                dim_out=1,
                depth=1,
                heads=2,
                dim_head=8,
            ),
            **_MIXED,
        ),
    },
)

rtdl_revisiting_models = library(
    "rtdl_revisiting_models",
    {
        "mlp": lambda: Built(
            made("rtdl_revisiting_models:MLP", d_in=6, d_out=2, n_blocks=2, d_block=16, dropout=0.1), **_TABLE
        ),
        "resnet": lambda: Built(
            made(
                "rtdl_revisiting_models:ResNet",
                d_in=6,
                d_out=2,
                n_blocks=2,
                d_block=16,
                d_hidden_multiplier=2.0,
                dropout1=0.1,
                dropout2=0.0,
            ),
            **_TABLE,
        ),
        "transformer": lambda: Built(
            Calling(
                lambda net, categories, x: net(x, categories),
                made(
                    "rtdl_revisiting_models:FTTransformer",
                    n_cont_features=5,
                    cat_cardinalities=[4, 4, 4],
                    d_out=2,
                    n_blocks=1,
                    d_block=16,
                    attention_n_heads=2,
                    attention_dropout=0.1,
                    ffn_d_hidden_multiplier=2.0,
                    ffn_dropout=0.1,
                    residual_dropout=0.0,
                ),
            ),
            **_MIXED,
        ),
    },
)

rtdl_num_embeddings = library(
    "rtdl_num_embeddings",
    {
        "periodic": lambda: Built(made("rtdl_num_embeddings:PeriodicEmbeddings", 6, 8, lite=False), **_TABLE),
        "piecewise": lambda: Built(
            made(
                "rtdl_num_embeddings:PiecewiseLinearEmbeddings",
                [made("torch:linspace", -1, 1, 5)] * 6,
                8,
                activation=False,
                version="B",
            ),
            **_TABLE,
        ),
    },
)


def _forecast(name: str, **keywords: Any) -> Built:
    net = made(f"neuralforecast.models:{name}", h=6, input_size=24, max_steps=1, **keywords)
    return Built(
        Calling(lambda net, x, mask: net(_window(x, mask)), net),
        {"x": floats(3, 24, 1), "mask": floats(3, 24, low=1, high=1)},
        {"batch": (1, 5)},
        dynamic={**BATCH, "mask": {0: "batch"}},
    )


def _window(x: Any, mask: Any) -> dict[str, Any]:
    return {"insample_y": x, "insample_mask": mask, "futr_exog": None, "hist_exog": None, "stat_exog": None}


neuralforecast = library(
    "neuralforecast",
    {
        "nhits": lambda: _forecast("NHITS"),
        "nbeats": lambda: _forecast("NBEATS"),
        "tide": lambda: _forecast("TiDE", hidden_size=16),
        "dlinear": lambda: _forecast("DLinear"),
        "patch_tst": lambda: _forecast("PatchTST", hidden_size=16, n_heads=2, patch_len=8, encoder_layers=1),
        "fedformer": lambda: _forecast("FEDformer", hidden_size=16, n_head=8, modes=4),
        "autoformer": lambda: _forecast("Autoformer", hidden_size=16, n_head=2),
        "times_net": lambda: _forecast("TimesNet", hidden_size=8, conv_hidden_size=8, top_k=2, encoder_layers=1),
    },
)

pytorch_forecasting = library(
    "pytorch_forecasting",
    {
        "gated_residual": lambda: Built(
            made("pytorch_forecasting.models.temporal_fusion_transformer.sub_modules:GatedResidualNetwork", 4, 8, 6),
            **_SERIES,
        ),
        "attention": lambda: Built(
            Calling(
                lambda net, x: net(x, x, x),
                made(
                    "pytorch_forecasting.models.temporal_fusion_transformer.sub_modules:InterpretableMultiHeadAttention",
                    2,
                    4,
                ),
            ),
            **_SERIES,
        ),
    },
)

pytorch_tcn = library(
    "pytorch_tcn",
    {
        "tcn": lambda: Built(made("pytorch_tcn:TCN", 4, [8, 8], kernel_size=3, input_shape="NLC"), **_SERIES),
    },
)

ncps = library(
    "ncps",
    {
        "cfc": lambda: Built(made("ncps.torch:CfC", 4, 8), **_SERIES),
        "ltc": lambda: Built(made("ncps.torch:LTC", 4, made("ncps.wirings:AutoNCP", 12, 3)), **_SERIES),
    },
)

kan = library("kan", {"kan": lambda: Built(made("kan:KAN", width=[6, 5, 2], grid=3, k=3, auto_save=False), **_TABLE)})


def _policy(name: str, space: Any, **keywords: Any) -> Any:
    box = made("gymnasium.spaces:Box", -1.0, 1.0, (6,))
    return made(f"stable_baselines3.{name}", box, space, lambda _: 1e-3, **keywords)


def _actions() -> Any:
    return made("gymnasium.spaces:Box", -1.0, 1.0, (2,))


stable_baselines3 = library(
    "stable_baselines3",
    {
        "actor_critic": lambda: Built(
            Calling(
                lambda policy, x: policy(x, deterministic=True),
                _policy("common.policies:ActorCriticPolicy", _actions()),
            ),
            **_TABLE,
        ),
        "actor_critic_of_choices": lambda: Built(
            Calling(
                lambda policy, x: policy(x, deterministic=True),
                _policy("common.policies:ActorCriticPolicy", made("gymnasium.spaces:Discrete", 4)),
            ),
            **_TABLE,
        ),
        "sac": lambda: Built(
            Calling(
                lambda policy, x: policy.actor(x, deterministic=True), _policy("sac.policies:SACPolicy", _actions())
            ),
            **_TABLE,
        ),
        "dqn": lambda: Built(
            Calling(
                lambda policy, x: policy(x), _policy("dqn.policies:DQNPolicy", made("gymnasium.spaces:Discrete", 4))
            ),
            **_TABLE,
        ),
        "evaluated": lambda: Built(
            Calling(
                lambda policy, x, a: policy.evaluate_actions(x, a),
                _policy("common.policies:ActorCriticPolicy", _actions()),
            ),
            {"x": floats(4, 6), "actions": floats(4, 2)},
            {"batch": (1, 7)},
            dynamic={**BATCH, "actions": {0: "batch"}},
        ),
    },
)
