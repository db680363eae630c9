"""How fast onnxruntime runs the exported models, beside those of torch.onnx."""
