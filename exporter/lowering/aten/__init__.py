"""The lowerings of ATen's operators, one file for each family of operators."""
