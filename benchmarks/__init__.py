"""Exports measured side by side: ours, torch.onnx's two, and the floor below which no exporter gets.

    python -m benchmarks --models resnet50,lstm --json figures.json

Every measurement of a subject is made in a process of its own; the subjects take turns, so that a machine
that slows down half-way slows all of them.
"""
