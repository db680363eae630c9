"""Verifies exported models: trials that run them beside the program, and the oracle that judges their outputs."""

from onnx_parity.exporter.verification.error_figures import VerificationInfo, verify_onnx_program

__all__ = ["VerificationInfo", "verify_onnx_program"]
