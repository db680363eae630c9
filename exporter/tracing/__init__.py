"""Tracing a program: one or more attempts to record it, and the errors for the user."""
