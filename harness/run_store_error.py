"""The error of a run that cannot be read or written. The store and the columns raise it."""

from __future__ import annotations


class RunStoreError(Exception):
    """A run that cannot be read or written. The message names the folder and what to do."""
