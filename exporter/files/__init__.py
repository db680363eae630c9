"""Writing models: bytes and files, external data, safetensors, weights that are computed when they are written."""
