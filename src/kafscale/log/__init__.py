"""A log as a chain of objects: formats, commit, recovery, housekeeping, reading."""
