"""Sounds and signals: filterbanks, resampling, codecs."""

from __future__ import annotations

from typing import Any

from onnx_parity.harness.case import floats, given
from onnx_parity.harness.zoo import Built
from onnx_parity.model_zoo.libraries.declaring import BATCH, Calling, library, made, named

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
        "conv_tasnet": lambda: Built(
            made("torchaudio.models:ConvTasNet", 2, 16, 32, 3, 16, 32, 2, 2),
            {"x": floats(2, 1, 1200)},
            # It pads what its strides do not divide.
            {"batch": (1, 3), "time": (1008, 2048)},
            dynamic=_CHANNELS["dynamic"],
        ),
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
            Calling(lambda x: named("torchaudio.functional:highpass_biquad")(x, 8000, 1000.0)),
            {"x": floats(2, 30)},
            {"batch": (1, 3), "time": (23, 41)},
            dynamic=_WAVE["dynamic"],
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
