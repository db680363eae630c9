"""Running an exported model in onnxruntime: sessions, and the arguments of a call as the model's inputs."""
