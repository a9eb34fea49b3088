"""A topic read from its table and its log."""
