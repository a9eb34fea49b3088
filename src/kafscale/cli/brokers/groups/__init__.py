"""The command for consumer groups, and changing the offsets that they have committed."""
