"""Queries of people who may look at topics and at nothing else on the machine.

Spark SQL can read any file (csv.`/etc/passwd`), call any Java method (reflect) and run programs
(TRANSFORM ... USING). Here: one SELECT over topics, with known functions, judged by Spark's own
parser. What is not known to be harmless is refused. Next door: running a query (sql.py).
"""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from kafscale.spark.errors import QueryRefused

_LONGEST: Final = 10_000  # characters
_MOST_NODES: Final = 5000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLANS: Final = _words(
    """Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LocalLimit LocalRelation
    Offset OneRowRelation PipeOperator Pivot Project Sample Sort SubqueryAlias Union
    UnresolvedHaving UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases
    UnresolvedWith WithWindowDefinition"""
)
_EXPRESSIONS: Final = _words(
    """Add Alias And AttributeReference Between BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen
    Cast Concat CreateNamedStruct CurrentRow$ Divide EqualNullSafe EqualTo Exists GreaterThan
    GreaterThanOrEqual In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction LessThan
    LessThanOrEqual Like ILike LikeAll LikeAny ListQuery Literal Multiply Not Or Remainder
    ScalarSubquery SortOrder SpecifiedWindowFrame Subtract TimeAdd UnaryMinus UnaryPositive
    UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedNamedLambdaVariable
    UnresolvedOrdinal UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedWindowExpression
    UnspecifiedFrame$ WindowExpression WindowSpecDefinition"""
)
FUNCTIONS: Final = _words(
    """abs aggregate any_value approx_count_distinct array array_contains array_distinct array_join
    array_max array_min avg base64 between bool_and bool_or cardinality ceil ceiling char_length
    coalesce collect_list collect_set concat concat_ws contains count count_if crc32 cume_dist
    current_date current_timestamp date date_add date_diff date_format date_sub date_trunc datediff
    day dayofmonth dayofweek dayofyear decode dense_rank element_at encode endswith exists exp
    explode explode_outer extract filter first first_value floor from_json from_unixtime
    get_json_object greatest hex hour if ifnull initcap instr isnotnull isnull json_tuple lag last
    last_value lead least left length ln locate log log10 lower lpad ltrim map_keys map_values max
    max_by md5 mean median min min_by minute mod mode month named_struct now nth_value ntile nullif
    nvl nvl2 percent_rank percentile percentile_approx position pow power quarter rank replace
    reverse right round row_number rpad rtrim second sha1 sha2 sign size slice sort_array split sqrt
    startswith stddev struct substr substring sum timestamp timestamp_millis to_date to_json
    to_timestamp transform trim trunc try_cast typeof unbase64 unhex unix_millis unix_timestamp
    upper variance weekofyear window year"""
)


def check_closed(spark: SparkSession, query: str) -> None:
    """Raise QueryRefused unless the query, with its topics quoted, can only look at topics."""
    from pyspark.errors import ParseException

    if len(query) > _LONGEST:
        raise QueryRefused(f"the query has more than {_LONGEST} characters")
    if not hasattr(spark, "_jsparkSession"):
        raise QueryRefused("Spark Connect has no parser that could check the query")
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        plans = [parser.parsePlan(query)]
    except ParseException as wrong:
        raise QueryRefused(str(wrong).split("\n\nJVM stacktrace")[0].strip()) from None
    expressions: list[Any] = []
    seen = 0
    while plans or expressions:
        seen += 1
        if seen > _MOST_NODES:
            raise QueryRefused("the query has too many parts")
        if expressions:
            expressions += _check_expression(expressions.pop())
            continue
        node = plans.pop()
        _check_plan(node)
        # Plans inside of expressions, such as subqueries, are among the inner children.
        plans += [*_each(node.children()), *_each(node.innerChildren())]
        expressions += _each(node.expressions())


def _check_plan(node: Any) -> None:
    name = _name(node)
    if name not in _PLANS:
        raise QueryRefused(f"only one SELECT over topics is allowed here, not {name}")
    if name == "UnresolvedRelation":
        parts = [str(part) for part in _each(node.multipartIdentifier())]
        if len(parts) != 1:
            raise QueryRefused(f"only topics can be read here, not {'.'.join(parts)}")


def _check_expression(node: Any) -> list[Any]:
    name = _name(node)
    if name not in _EXPRESSIONS:
        raise QueryRefused(f"{name} is not allowed here")
    called = ""
    if name == "UnresolvedFunction":
        called = ".".join(str(part) for part in _each(node.nameParts()))
    elif name == "UnresolvedGenerator":
        called = str(node.name().unquotedString())
    if called and called.lower() not in FUNCTIONS:
        raise QueryRefused(f"the function {called} is not allowed here")
    return list(_each(node.children()))


def _name(node: Any) -> str:
    return str(node.getClass().getName()).rpartition(".")[2]


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
