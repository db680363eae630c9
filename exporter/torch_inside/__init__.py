"""The only folder that names private parts of torch and Python: a module for each subject, with public names for it.

Names are re-exported as they are, so that they cost nothing. `patch.py` is how torch is changed while a program is
recorded; the changes themselves are in `patches/`, except for those that need nothing of a recording.
"""
