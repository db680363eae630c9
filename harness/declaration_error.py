"""The error of a wrong declaration. It is in a file of its own, so that code that shows it need not import torch."""

from __future__ import annotations


class DeclarationError(Exception):
    """A declaration has a mistake. The message names the file and line, the mistake, and what to write instead."""
