"""The jobs, one file each: what it takes (`add_arguments`), what it does (`run`).

A job is idempotent and resumable; it is safe beside live brokers and beside itself, for nothing
it writes counts before a manifest, a descriptor or a table's own commit names it.
"""
