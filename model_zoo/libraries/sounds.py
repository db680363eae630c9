"""Sounds and signals: filterbanks, resampling, codecs, recognition of speech, recordings of brains."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, given
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.library import BATCH, Calling, library, made, named

_WAVE: Any = {
    "inputs": {"x": floats(2, 1200)},
    "sizes": {"batch": (1, 3), "time": (1013, 2048)},
    "dynamic": {"x": {0: "batch", 1: "time"}},
}
_CHANNELS: Any = {
    "inputs": {"x": floats(2, 1, 1200)},
    "sizes": {"batch": (1, 3), "time": (1013, 2048)},
    "dynamic": {"x": {0: "batch", 2: "time"}},
}
_FRAMES: Any = {
    "inputs": {"x": floats(2, 40, 80)},
    "sizes": {"batch": (1, 3), "time": (37, 64)},
    "dynamic": {"x": {0: "batch", 1: "time"}},
}

asteroid_filterbanks = library(
    "asteroid_filterbanks",
    {
        "stft": lambda: Built(
            made("asteroid_filterbanks:Encoder", made("asteroid_filterbanks:STFTFB", 64, 64, stride=16)), **_CHANNELS
        ),
        "free": lambda: Built(
            made("asteroid_filterbanks:Encoder", made("asteroid_filterbanks:FreeFB", 64, 32)), **_CHANNELS
        ),
        "there_and_back": lambda: Built(
            Calling(
                lambda enc, dec, x: dec(enc(x)),
                made("asteroid_filterbanks:Encoder", made("asteroid_filterbanks:STFTFB", 64, 64, stride=32)),
                made("asteroid_filterbanks:Decoder", made("asteroid_filterbanks:STFTFB", 64, 64, stride=32)),
            ),
            **_CHANNELS,
        ),
    },
)

julius = library(
    "julius",
    {
        "resample": lambda: Built(made("julius:ResampleFrac", 4, 5), **_WAVE),
        "low_pass": lambda: Built(made("julius:LowPassFilters", [0.1, 0.2]), **_WAVE),
        "bands": lambda: Built(made("julius:SplitBands", 16000, 4), **_WAVE),
        "fft_conv": lambda: Built(made("julius:FFTConv1d", 1, 2, 32), **_CHANNELS),
    },
)

torchaudio = library(
    "torchaudio",
    {
        "mel_spectrogram": lambda: Built(
            made("torchaudio.transforms:MelSpectrogram", 8000, n_fft=128, n_mels=16), **_WAVE
        ),
        "mfcc": lambda: Built(
            made("torchaudio.transforms:MFCC", 8000, n_mfcc=8, melkwargs={"n_fft": 128, "n_mels": 16}), **_WAVE
        ),
        "griffin_lim": lambda: Built(
            made("torchaudio.transforms:GriffinLim", n_fft=32, n_iter=2, rand_init=False),
            {"x": floats(2, 17, 20, low=0, high=1)},
            {"batch": (1, 3), "time": (17, 23)},
            dynamic={"x": {0: "batch", 2: "time"}},
        ),
        "conv_tasnet": lambda: Built(made("torchaudio.models:ConvTasNet", 2, 16, 32, 3, 16, 32, 2, 2), **_CHANNELS),
        "wav2letter": lambda: Built(made("torchaudio.models:Wav2Letter", 10), **_CHANNELS),
        "conformer": lambda: Built(
            made("torchaudio.models:Conformer", 80, 4, 64, 2, 7),
            {"x": floats(2, 40, 80), "lengths": given([40, 31])},
            {},
            dynamic={},
        ),
        "wave_rnn": lambda: Built(
            made("torchaudio.models:WaveRNN", [2, 2], 8, 4, 1, 16, 16, 5, 8, 16, 8),
            {"x": floats(2, 1, 16), "spectrogram": floats(2, 1, 8, 8)},
            {"batch": (1, 3)},
            dynamic={**BATCH, "spectrogram": {0: "batch"}},
        ),
        "lfilter": lambda: Built(
            Calling(lambda x: named("torchaudio.functional:highpass_biquad")(x, 8000, 1000.0)), **_WAVE
        ),
    },
)

speechbrain = library(
    "speechbrain",
    {
        "ecapa": lambda: Built(
            made("speechbrain.lobes.models.ECAPA_TDNN:ECAPA_TDNN", 80, channels=[32] * 4 + [96], lin_neurons=24),
            **_FRAMES,
        ),
        "xvector": lambda: Built(
            made("speechbrain.lobes.models.Xvector:Xvector", in_channels=80, tdnn_channels=[32] * 5, lin_neurons=16),
            **_FRAMES,
        ),
        "crdnn": lambda: Built(
            made(
                "speechbrain.lobes.models.CRDNN:CRDNN",
                input_size=80,
                cnn_blocks=1,
                cnn_channels=(8,),
                rnn_layers=1,
                rnn_neurons=16,
                dnn_neurons=16,
            ),
            **_FRAMES,
        ),
        "fbank": lambda: Built(made("speechbrain.lobes.features:Fbank", n_mels=20), **_WAVE),
        "conformer": lambda: Built(
            made(
                "speechbrain.lobes.models.transformer.Conformer:ConformerEncoder",
                num_layers=1,
                d_model=32,
                d_ffn=48,
                nhead=2,
                kernel_size=5,
                attention_type="regularMHA",
            ),
            {"x": floats(2, 20, 32)},
            {"batch": (1, 3), "time": (17, 31)},
            dynamic={"x": {0: "batch", 1: "time"}},
        ),
        "sepformer": lambda: Built(
            made(
                "speechbrain.lobes.models.dual_path:Dual_Path_Model",
                16,
                16,
                made("speechbrain.lobes.models.dual_path:SBTransformerBlock", 1, 16, 2, 32),
                made("speechbrain.lobes.models.dual_path:SBTransformerBlock", 1, 16, 2, 32),
                num_layers=1,
                K=10,
                num_spks=2,
            ),
            {"x": floats(2, 16, 60)},
            {"batch": (1, 3), "time": (53, 77)},
            dynamic={"x": {0: "batch", 2: "time"}},
        ),
    },
)

encodec = library(
    "encodec",
    {
        "encoder": lambda: Built(
            made("encodec.modules:SEANetEncoder", n_filters=8, dimension=16, ratios=[4, 2], lstm=1), **_CHANNELS
        ),
        "decoder": lambda: Built(
            made("encodec.modules:SEANetDecoder", n_filters=8, dimension=16, ratios=[4, 2], lstm=1),
            {"x": floats(2, 16, 40)},
            {"batch": (1, 3), "time": (37, 64)},
            dynamic={"x": {0: "batch", 2: "time"}},
        ),
    },
)

nnAudio = library(
    "nnAudio",
    {
        "mel": lambda: Built(
            made("nnAudio.features:MelSpectrogram", sr=8000, n_fft=128, n_mels=16, hop_length=64, verbose=False),
            **_WAVE,
        ),
        "stft": lambda: Built(
            made("nnAudio.features:STFT", n_fft=128, hop_length=64, output_format="Magnitude", verbose=False), **_WAVE
        ),
    },
)

conformer = library(
    "conformer",
    {
        "block": lambda: Built(
            made("conformer:ConformerBlock", dim=32, dim_head=8, heads=2, conv_kernel_size=5),
            {"x": floats(2, 20, 32)},
            {"batch": (1, 3), "time": (17, 31)},
            dynamic={"x": {0: "batch", 1: "time"}},
        ),
    },
)

_BRAIN: Any = {"n_chans": 8, "n_outputs": 3, "n_times": 400, "sfreq": 100}


def _of_brains(name: str, **keywords: Any) -> Built:
    return Built(made(f"braindecode.models:{name}", **_BRAIN, **keywords), {"x": floats(2, 8, 400)}, {"batch": (1, 3)})


braindecode = library(
    "braindecode",
    {
        "eegnet": lambda: _of_brains("EEGNet"),
        "shallow": lambda: _of_brains("ShallowFBCSPNet"),
        "conformer": lambda: _of_brains("EEGConformer"),
        "atcnet": lambda: _of_brains("ATCNet"),
        "tcn": lambda: _of_brains("EEGTCNet"),
    },
)
