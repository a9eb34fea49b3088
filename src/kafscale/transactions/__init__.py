"""A transactional id as a row and its transitions: pure, with time and ids as arguments.

May use: model.
"""
