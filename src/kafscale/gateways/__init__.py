"""The doors: wire values to engine verbs and back."""
