"""The nouns: names, topics, errors, clocks. Imports no other room."""
