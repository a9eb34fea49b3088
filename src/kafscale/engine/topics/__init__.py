"""Which topics exist, their settings, and how they are created, changed and deleted.

May use: cluster, log.catalog. Never here: open logs.
"""
