"""Judging stored objects: one object (checks.py, contents.py) and one log (log_checks.py)."""
