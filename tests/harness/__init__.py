"""Tests of the harness: that it passes what is right, catches what is wrong, and loses nothing."""
