"""Loops over tokens that are linear recurrences, as operators over all tokens."""
