"""Many partitions on few logs: the arithmetic, and which topics get how many.

Pure numbers. Next door: lanes as they live (log/writer/lane.py), topics that have them
(engine/topics/registry.py).
"""
