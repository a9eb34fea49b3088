"""The settings of Kafscale: their names, types, defaults, sources and rules."""
