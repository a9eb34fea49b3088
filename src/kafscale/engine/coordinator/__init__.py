"""Consumer groups and their committed offsets, as far as this broker coordinates them.

May use: topics, cluster and the state machine in `kafscale.groups`.
"""
