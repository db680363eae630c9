"""Whether an exported model is right: the oracle, which judges values, and what is put to it."""

from exporter.verification.information import VerificationInfo, verify_onnx_program

__all__ = ["VerificationInfo", "verify_onnx_program"]
