"""Tests of the exporter's surface: what a user calls, gets, and is told."""
