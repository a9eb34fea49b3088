"""The jobs, one file each: what it takes (`add_arguments`), what it does (`run`).

Here: the eight jobs, and what their command lines share (arguments.py) and how they are stopped
(stopping.py). Next door, one folder for each subject: logs as jobs find them (logs/), rewriting
them (compaction/), judging them (checking/), making another topic of one (conversion/).

A job is idempotent and resumable. It is safe beside live brokers and beside itself, because nothing
that it writes counts before a manifest, a descriptor or a table's own commit names it.
"""
