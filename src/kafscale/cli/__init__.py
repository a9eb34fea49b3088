"""The command line: arguments in, one call, tables out."""
