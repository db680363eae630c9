"""Runtimes of other projects, one file each: how a model is loaded and run, and what the runtime claims to support."""
