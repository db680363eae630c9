"""The error of a declaration with a mistake in it, in a file of its own: who shows it need not import torch."""

from __future__ import annotations


class DeclarationError(Exception):
    """A declaration has a mistake. The message names its file and line, what is wrong, and what to write instead."""
