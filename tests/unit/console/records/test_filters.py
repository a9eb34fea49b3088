import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.console.records.filters import (
    DEEPEST,
    LONGEST,
    NAMES,
    FilterError,
    NoAnswer,
    compile_filter,
)

SCOPE = {
    "key": "c-77",
    "value": {"id": 73314510714175488, "amount": 120.5, "tags": ["a", "b"], "to": {"city": "Bern"}},
    "headers": {"trace": "t1"},
    "offset": 41,
    "partition": 3,
    "timestamp": 1_700_000_000_000,
    "size": 312,
}


@pytest.mark.parametrize(
    "text",
    [
        'value.amount > 100 && headers.trace != ""',
        "value.id == 73314510714175488",
        "!(value.id == 73314510714175489)",
        'value.to.city == "Bern" || value.missing == 1',
        'value.missing == 1 || value.to.city == "Bern"',
        "has(value.to.city) && !has(value.to.street)",
        '"a" in value.tags && !("z" in value.tags)',
        '"id" in value',
        "value.tags[1] == 'b' && size(value.tags) == 2",
        'value["to"]["city"].startsWith("Be") && value.to.city.endsWith("rn")',
        'key.contains("77") && partition in [1, 2, 3]',
        "offset + 1 == 42 && -offset < 0 && 7 / 2 == 3 && -7 / 2 == -3 && 7 % 4 == 3",
        'int("42") == 42 && string(offset) == "41" && double("1.5") == 1.5',
        "timestamp >= 1700000000000 && size < 1000",
        "true || value.missing",
        "true != 1",
    ],
)
def test_filters_that_fit(text: str) -> None:
    assert compile_filter(text).matches(SCOPE)


@pytest.mark.parametrize(
    "text", ["value.missing == 1", "value.amount", "key < 3", "value.tags[9] == 1", "1 / 0 == 1"]
)
def test_a_record_on_which_a_filter_has_no_answer(text: str) -> None:
    with pytest.raises(NoAnswer):
        compile_filter(text).matches(SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "value.amount >",
        "amount > 1",
        "__import__('os')",
        'value.matches(".*")',
        "value.tags.map(x, x)",
        "[1, 2",
        "a ? b : c",
        '"unclosed',
        "1 == 1 1",
        "(" * (DEEPEST + 1) + "true" + ")" * (DEEPEST + 1),
        "true || " * LONGEST,
        "9" * 200 + " == 1",
    ],
)
def test_what_is_no_filter_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(FilterError) as refused:
        compile_filter(text)
    assert str(refused.value)


@given(
    st.lists(
        st.sampled_from(
            [*sorted(NAMES), "(", ")", "[", "]", ".", ",", "!", "-", "+", "*", "/", "%", "&&", "||",
             "==", "<", "in", "1", "2.5", '"x"', "true", "null", "has", "size", "int", "contains"]
        ),
        max_size=40,
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    ),
)  # fmt: skip
def test_whatever_is_typed_and_whatever_a_record_holds_nothing_else_is_raised(
    words: list[str], value: object
) -> None:
    try:
        made = compile_filter(" ".join(words))
    except FilterError:
        return
    try:
        made.matches({**SCOPE, "value": value})
    except NoAnswer:
        return
