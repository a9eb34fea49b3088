"""Throwing bytes at the frame decoder, and the messages to start from.

samples.py makes values for any table, mutations.py spoils frames, __main__.py goes on until stopped.
"""
