"""Rewriting the history of logs: fewer and larger objects, or fewer records.

merge.py joins objects and by_key.py keeps the newest record of each key (key_compaction.py does
one object of it, surviving_records.py chooses its records); lane_sort.py divides lanes among
objects, assembly.py lays batches into them, commit_waves.py runs the work and commits it.
"""
