"""Runs cells: their stages, the processes that they run in, time and memory limits, records as they end."""
