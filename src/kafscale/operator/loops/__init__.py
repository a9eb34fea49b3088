"""The control loops, one for each kind: look, plan, carry out, tell.

Here: `clusters`, `topics`, `users`, what they read first, and the status and events they write.
Next door: what should be done (planning/).
"""
