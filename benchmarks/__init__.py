"""Measures exports: this exporter, both exporters of torch.onnx, and a lower bound for any exporter (the floor).

    python -m benchmarks --models resnet50,lstm --json figures.json

Every measurement is made in a process of its own. The exporters take turns, so that a machine that becomes slower
affects all of them.
"""
