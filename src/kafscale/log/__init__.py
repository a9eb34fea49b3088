"""One log: a chain of segments in the object store, and the partitions (lanes) in it.

The sub-rooms, from the bottom: formats, protocol, catalog, writer, reader, upkeep, moves.
import-linter checks the order.
"""
