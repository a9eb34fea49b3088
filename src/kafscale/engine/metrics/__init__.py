"""The names of all metrics, and the objects that gather their values.

May use: partitions and everything below it.
"""
