"""The conformance pack: cases as files, for runtimes that are tested without Python."""
