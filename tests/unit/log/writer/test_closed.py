"""Logs are closed: only the module of a class assigns to the attributes of its objects.

The test reads the source. It knows an object of these classes by an annotation, by the call that
makes or finds it, or by the name that the house gives to such objects.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafscale
from tests.support import syntax

ROOT = Path(kafscale.__file__).parent
HOMES = {
    "Log": "log/writer/log.py",
    "Lane": "log/writer/lane.py",
    "CommittedLog": "log/writer/committed.py",
    "History": "log/writer/history.py",
    "LateWrites": "log/writer/late_writes.py",
}
NAMES = {
    "log": "Log",
    "lane": "Lane",
    "committed": "CommittedLog",
    "history": "History",
    "late_writes": "LateWrites",
}


@functools.cache
def attributes(name: str) -> set[str]:
    """All attributes that a class assigns to itself."""
    tree = syntax.parse((ROOT / HOMES[name]).read_text())
    (made,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return {
        target.attr
        for target in targets(made)
        if isinstance(target.value, ast.Name) and target.value.id == "self"
    }


def targets(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that is assigned to or deleted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def class_of_value(node: ast.expr | None) -> str | None:
    """The class that a call or a subscript gives, as far as its own words tell."""
    if isinstance(node, ast.Await):
        return class_of_value(node.value)
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id in HOMES:
            return called.id
        if isinstance(called, ast.Attribute):
            return {"lane": "Lane", "open_log": "Log"}.get(called.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return "Lane" if node.value.attr == "lanes" else None
    return None


def class_of_annotation(node: ast.expr | None) -> str | None:
    words = {word.id for word in ast.walk(node) if isinstance(word, ast.Name)} if node else set()
    return next((name for name in HOMES if words == {name}), None)


def known_names(tree: ast.AST) -> dict[str, str]:
    """Variables of a module that hold an object of one of the classes."""
    found = dict(NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and (kind := class_of_annotation(node.annotation)):
            found[node.arg] = kind
        elif isinstance(node, ast.AnnAssign) and (kind := class_of_annotation(node.annotation)):
            if isinstance(node.target, ast.Name):
                found[node.target.id] = kind
        elif isinstance(node, ast.Assign) and (kind := class_of_value(node.value)):
            found |= {name.id: kind for name in node.targets if isinstance(name, ast.Name)}
    return found


def intrusions(source: str, path: str) -> list[str]:
    """Assignments in a module to attributes of objects whose class lives elsewhere."""
    tree = syntax.parse(source)
    names = known_names(tree)
    found = []
    for target in targets(tree):
        holder = target.value
        kind = class_of_value(holder)
        if isinstance(holder, ast.Name):
            kind = names.get(holder.id)
        elif isinstance(holder, ast.Attribute):
            kind = names.get(holder.attr.removeprefix("_"))
        if kind and HOMES[kind] != path and target.attr in attributes(kind):
            found.append(f"{path}:{target.lineno} assigns to {kind}.{target.attr}")
    return found


def test_no_module_writes_into_a_log() -> None:
    found = [
        intrusion
        for path in sorted(ROOT.rglob("*.py"))
        if "proxy" not in path.relative_to(ROOT).parts  # it has lanes of its own, and no log
        for intrusion in intrusions(path.read_text(), path.relative_to(ROOT).as_posix())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(one: Log) -> None:\n    one.epoch = 3",
        "log.settings = 1",
        "self._log.state = 1",
        "log.epoch += 1",
        "log.lane(3).rules = 1",
        "log.lanes[3].end = 1",
        "live = view.lane(0)\nlive.start = 3",
        "made = Lane(3)\nmade.high, other = 1, 2",
        "log.committed.manifest = None",
        "async def f():\n    opened = await logs.open_log(1)\n    opened.epoch = 1",
    ],
)
def test_each_way_to_write_into_a_log_is_seen(source: str) -> None:
    assert len(intrusions(source, "engine/anywhere.py")) == 1


def test_other_objects_may_be_written() -> None:
    assert not intrusions("found.epoch = 3\nself.end = 1\nlog = 3", "engine/anywhere.py")
