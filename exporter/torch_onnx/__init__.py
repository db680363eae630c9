"""What is there for the sake of scripts written for `torch.onnx`: old arguments, modes, export types."""
