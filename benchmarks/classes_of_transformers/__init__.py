"""Which classes of transformers export right: see `__main__.py`."""
