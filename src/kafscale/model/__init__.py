"""The nouns: names, topics, errors, clocks. Imports nothing of ours."""
