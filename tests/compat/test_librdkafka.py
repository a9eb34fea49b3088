"""librdkafka's own tests pass. A part of them here; `make compat` runs all."""

import re

import pytest

from tests.compat import cases, librdkafka, runner
from tests.compat.cases import Case
from tests.compat.librdkafka import Verdict
from tests.support.maven import Unavailable

LISTED = "librdkafka.txt"
LISTED_IDEMPOTENT = "librdkafka_idempotent.txt"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    try:
        librdkafka.program()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_part_of_the_listed_tests_passes() -> None:
    wanted = cases.cases(LISTED, starred_only=True)
    wanted += cases.cases(LISTED_IDEMPOTENT, idempotent=True, starred_only=True)
    assert len(wanted) > 50

    def told(verdict: Verdict) -> None:
        print(verdict)
        if verdict.reasons:
            print(verdict.output[-6000:])

    verdicts = runner.run_all(wanted, told)
    assert [str(each) for each in verdicts if not (each.passed or each.unjudged)] == []


def test_every_test_that_needs_a_broker_is_listed_or_explained() -> None:
    source = (librdkafka.program().parent / "test.c").read_text()
    numbers = {
        number
        for number, flags in re.findall(r"^ +_TEST\((\d{4})_\w+,\s*([\w| ]*)", source, re.MULTILINE)
        if "LOCAL" not in flags and "MANUAL" not in flags
    }
    known = {case.number for case in [*cases.cases(LISTED), *cases.unlisted(), *cases.hollow()]}
    assert len(numbers) > 100
    assert numbers - known == set()


def test_no_case_is_listed_and_explained_at_once() -> None:
    listed = [*cases.cases(LISTED), *cases.unlisted(), *cases.hollow()]
    assert len(listed) == len(set(listed))


FAILED = """
[0001_multiobj / 0.1s] [ do_test_one:12: a part ]
### Test "0001_multiobj (do_test_one:12: a part)" failed at 0001.c:20:f() at Sun Nov 15: ###
expected 1, got 2
### Test "<MAIN>" failed at test.c:1950:test_wait_exit() at Sun Nov 15 23:43:03 2026: ###
3 thread(s) still active in librdkafka
"""
PASSED = """
[0001_multiobj / 0.1s] [ do_test_one:12: a part ]
[0001_multiobj / 0.2s] [ do_test_one:12: a part: PASS (0.10s) ]
[0001_multiobj / 0.2s] [ do_test_two:52: SKIP: no TLS ]
| 0001_multiobj                            |     PASSED |   1.524s |
"""


@pytest.mark.parametrize(
    ("output", "status", "requests", "passes"),
    [
        (PASSED, 0, 3, True),
        (PASSED, 0, 0, False),  # sent nothing: tested nothing
        (PASSED, 1, 3, False),
        (PASSED, None, 3, False),
        (PASSED.replace("PASSED", "SKIPPED"), 0, 3, False),
        ("", 0, 3, False),
        (FAILED, -6, 3, False),
    ],
)
def test_only_a_test_that_ran_and_asked_something_has_passed(
    output: str, status: int | None, requests: int, passes: bool
) -> None:
    verdict = librdkafka.read(Case("0001"), status, output)
    verdict.requests = requests
    assert verdict.passed is passes


def test_a_part_that_was_skipped_has_not_passed() -> None:
    assert librdkafka.read(Case("0001", subtest="do_test_one"), 0, PASSED).reasons == []
    for name in ("do_test_two", "do_test_three"):
        verdict = librdkafka.read(Case("0001", subtest=name), 0, PASSED)
        assert verdict.reasons == ["no such subtest has passed"]


def test_a_failure_is_told_in_the_suites_words() -> None:
    verdict = librdkafka.read(Case("0001", subtest="do_test_one"), -6, FAILED)
    assert verdict.reasons[0] == "0001_multiobj (do_test_one:12: a part): expected 1, got 2"
