"""Searching and following records: ranges, decoders, filters, cursors."""
