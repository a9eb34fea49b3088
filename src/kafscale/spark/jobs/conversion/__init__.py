"""Making another topic of one: its steps (steps.py), and adding to logs that topics share."""
