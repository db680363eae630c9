"""Tests of the exporter, by what a user calls and gets."""
