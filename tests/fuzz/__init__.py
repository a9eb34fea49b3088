"""Throwing bytes at the frame decoder, and the messages to start from.

samples.py makes values for any table, mutations.py spoils frames and judges what the decoder does
with them, __main__.py goes on until stopped.
"""
