"""The client matrix: what is tried (cells.py, crosswise.py) and how it is told (page.py)."""
