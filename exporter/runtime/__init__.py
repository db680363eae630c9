"""Runs exported models in onnxruntime: creates sessions, and binds the arguments of a call to a model's inputs."""
