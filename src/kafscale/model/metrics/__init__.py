"""Counters, gauges and histograms, and the names of series that other programs read."""
