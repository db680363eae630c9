"""The lowerings of ATen's operators, one file a family."""
