"""The `parity` command, also as `python -m onnx_parity`. Without the extra `harness` it says what to install."""

from __future__ import annotations

import gc
import sys

from onnx_parity.harness.extra import how_to_install, missing_packages


def main() -> None:
    missing = missing_packages()
    if missing:
        print(how_to_install("parity", missing), file=sys.stderr)
        sys.exit(2)
    # What commands import stays to the end. To look for garbage in it takes a third of the time to import torch, and
    # 0.4 s when Python ends.
    gc.set_threshold(100_000, 50, 100)
    from onnx_parity.harness.cli import app

    try:
        app(prog_name="parity")
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
