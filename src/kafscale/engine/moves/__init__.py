"""Moving a topic from one layout to another while clients use it.

May use: partitions and everything below it.
"""
