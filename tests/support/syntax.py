"""Parsing our own source in tests."""

import ast


def parse(source: str) -> ast.Module:
    """The syntax tree of a module.

    CPython 3.11 sometimes raises a false SystemError ("AST constructor recursion depth mismatch")
    when the garbage collector runs during the parse, so a second attempt is made.
    """
    try:
        return ast.parse(source)
    except SystemError:
        return ast.parse(source)
