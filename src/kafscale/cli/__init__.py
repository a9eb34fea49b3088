"""The command line: arguments in, one call, tables out.

Here: the list of commands (main.py). Commands lie by what they work on: serving/ runs brokers,
brokers/ asks them, bucket/ works without them. terminal/ is what they share.
"""
