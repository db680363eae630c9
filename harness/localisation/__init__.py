"""Localisation: finds the first operator that diverges in a failing cell, and the smallest program that still fails."""
