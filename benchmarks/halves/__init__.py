"""Whether values that float16 cannot hold are found: see `__main__.py`."""
