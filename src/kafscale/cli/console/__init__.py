"""The command that runs the web console, with what other rooms do for it.

Here: child processes, schemas and snapshots, as the console asks for them.
Next door: the server (console/).
"""
