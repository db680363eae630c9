"""Whether an exported model is right: the oracle, which judges values, and what is put to it."""

from onnx_parity.exporter.verification.error_figures import VerificationInfo, verify_onnx_program

__all__ = ["VerificationInfo", "verify_onnx_program"]
