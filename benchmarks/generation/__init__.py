"""Whether exported language models choose the tokens that eager PyTorch chooses: see `__main__.py`."""
