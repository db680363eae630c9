"""Models as files: bytes, external data, safetensors, weights that are computed when they are written."""
