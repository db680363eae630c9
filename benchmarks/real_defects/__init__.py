"""Defects that users reported and maintainers fixed: does the matrix notice them with the old release?"""
