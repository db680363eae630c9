"""`python -m onnx_parity` is the command `parity`, also where the folder of Python's scripts is not on the PATH."""

from onnx_parity.harness.cli import app

if __name__ == "__main__":
    app(prog_name="parity")
