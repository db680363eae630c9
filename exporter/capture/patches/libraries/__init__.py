"""Patches of torchvision and transformers."""
