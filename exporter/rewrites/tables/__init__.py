"""Tables of rewrites, a file for each subject."""
