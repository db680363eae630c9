"""The harness: cases x axes make cells; a cell runs its stages; its outcome goes into the run store."""
