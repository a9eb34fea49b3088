"""Which columns of a topic a query needs.

A Python source of Spark is told no columns, and the optimizer does not look into a struct that may
be null. Here: the query's own plan, as Spark's analyzer makes it, is searched for columns of the
topics' views and for fields of their values. What is not understood needs everything.
Next door: the frames that are made for it (frames.py). Never here: running a query.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

# Plans that hand columns on and use them in their expressions only.
_TRANSPARENT: Final = frozenset(
    (
        *("Aggregate", "Filter", "GlobalLimit", "Join", "LocalLimit"),
        *("Project", "Sort", "SubqueryAlias", "View"),
    )
)
_WHOLE: Final = frozenset(["Distinct", "Union"])  # plans that use every column below them


class Needs(NamedTuple):
    """Columns of one topic; `fields` are those of a value of which not all is needed."""

    columns: frozenset[str]
    fields: frozenset[str] | None = None


class _Column(NamedTuple):
    view: str
    name: str


class _NotUnderstood(Exception):
    """A plan whose use of columns is not known here."""


def needs_of(spark: SparkSession, query: str, views: Collection[str]) -> Mapping[str, Needs]:
    """What a query needs of each of these views; one that is not named needs everything.

    The query is parsed and analyzed, never run: it may be a command.
    """
    try:
        state = spark._jsparkSession.sessionState()
        plan = state.analyzer().execute(state.sqlParser().parsePlan(query))
        return _Search(views).found(plan) if plan.resolved() else {}
    except _NotUnderstood:
        return {}
    except Exception as problem:  # of the JVM, in whichever words; the query itself will tell
        if type(problem).__module__.split(".")[0] not in ("py4j", "pyspark"):
            raise
        return {}


class _Search:
    def __init__(self, views: Collection[str]) -> None:
        self._views = views
        self._columns: dict[int, _Column] = {}  # by Spark's number of the attribute
        self._whole: set[_Column] = set()
        self._fields: dict[_Column, set[str]] = {}

    def found(self, plan: Any) -> dict[str, Needs]:
        if _kind(plan) not in _TRANSPARENT | _WHOLE:
            raise _NotUnderstood
        nodes = list(self._nodes(plan))
        self._use_all(plan)
        for node in nodes:
            if _kind(node) in _WHOLE:
                for child in _each(node.children()):
                    self._use_all(child)
            for expression in _each(node.expressions()):
                self._use(expression)
        return {view: self._needs(view) for view in self._views}

    def _nodes(self, root: Any) -> Iterator[Any]:
        """The plans above the views, which are looked at on the way."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            kind = _kind(node)
            if kind == "View" and (view := node.desc().identifier().table()) in self._views:
                for attribute in _each(node.output()):
                    self._columns[attribute.exprId().id()] = _Column(view, attribute.name())
                continue
            below = list(_each(node.children()))
            is_known = not below or kind in _TRANSPARENT or kind in _WHOLE
            if not is_known or not node.subqueries().isEmpty():
                raise _NotUnderstood
            yield node
            waiting += below

    def _use_all(self, node: Any) -> None:
        for attribute in _each(node.output()):
            self._use(attribute)

    def _use(self, expression: Any) -> None:
        column = self._column(expression)
        if column is not None:
            self._whole.add(column)
            return
        if _kind(expression) == "GetStructField":
            inner = self._column(expression.child())
            if inner is not None:
                names = expression.child().dataType().fieldNames()
                self._fields.setdefault(inner, set()).add(str(names[expression.ordinal()]))
                return
        for part in _each(expression.children()):
            self._use(part)

    def _column(self, expression: Any) -> _Column | None:
        if _kind(expression) != "AttributeReference":
            return None
        return self._columns.get(expression.exprId().id())

    def _needs(self, view: str) -> Needs:
        whole = {column.name for column in self._whole if column.view == view}
        parts = {
            column.name: names for column, names in self._fields.items() if column.view == view
        }
        fields = None if "value" in whole or "value" not in parts else frozenset(parts["value"])
        return Needs(frozenset(whole | set(parts)), fields)


def _kind(node: Any) -> str:
    return str(node.getClass().getName()).rpartition(".")[2]


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
