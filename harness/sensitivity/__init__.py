"""What cases can tell: eager programs with one thing altered, whose results have to differ from the expected ones."""
