"""What is recorded for special functions that write in place."""

from onnx_parity.exporter.registry.in_place import DYNAMIC, DYNAMIC_HALVES, copy_back

copy_back("logit_", "sinc_", "xlogy_", to=DYNAMIC)
copy_back("digamma_", "erfc_", "erfinv_", "i0_", "igamma_", "igammac_", "lgamma_", to=DYNAMIC_HALVES)
