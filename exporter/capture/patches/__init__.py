"""Patches of torch and torchvision, which are applied while programs are recorded and undone afterwards."""
