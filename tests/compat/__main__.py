"""Run other projects' suites whole, the tests we know to fail included: `make compat`.

A listed test that fails is an error. One that is not listed and passes is worth a line.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compat import cases, franz_go, kafka_python, runner
from tests.compat.cases import Case
from tests.compat.librdkafka import Verdict
from tests.compat.test_kafka_python import PatientBroker
from tests.support.secured import SecuredProcess


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make compat", description=__doc__)
    suites = {
        "librdkafka": librdkafka,
        "idempotent": idempotent,
        "kafka-python": kafka_python_s,
        "franz-go": franz_go_s,
    }
    parser.add_argument("suite", nargs="*", choices=[[], *suites], help="all unless named")
    wanted = parser.parse_args(arguments).suite or list(suites)
    return max(suites[name]() for name in wanted)


def librdkafka() -> int:
    listed = cases.cases("librdkafka.txt")
    return _judge("librdkafka", set(listed), [*listed, *cases.unlisted()])


def idempotent() -> int:
    listed = cases.cases("librdkafka_idempotent.txt", idempotent=True)
    others = [replace(case, idempotent=True) for case in cases.cases("librdkafka.txt")]
    return _judge("librdkafka, idempotent", set(listed), list(dict.fromkeys([*listed, *others])))


def kafka_python_s() -> int:
    listed = set(cases.lines("kafka_python.txt"))
    began = time.monotonic()
    with PatientBroker() as broker:
        outcomes = kafka_python.run(broker)
    for name, outcome in outcomes.items():
        print(f"{outcome[:8]:8} {name}  {outcome if outcome != 'passed' else ''}".rstrip())
    passed = {name for name, outcome in outcomes.items() if outcome == "passed"}
    return _summary("kafka-python", listed, passed, len(outcomes), began)


def franz_go_s() -> int:
    listed = set(cases.lines(franz_go.LISTED))
    franz_go.build()
    began = time.monotonic()
    with TemporaryDirectory() as folder, SecuredProcess(Path(folder) / "broker") as broker:
        outcomes, said = franz_go.run(broker)
    passed = {name for name, outcome in outcomes.items() if outcome == "PASS"}
    if passed != listed:
        print(said)
    return _summary("franz-go", listed, passed, len(outcomes), began)


def _judge(title: str, listed: set[Case], wanted: list[Case]) -> int:
    began = time.monotonic()
    verdicts = runner.run_all(wanted, _tell, once=set(wanted) - listed)
    passed = {verdict.case for verdict in verdicts if verdict.passed or verdict.unjudged}
    names = {str(case) for case in listed}
    return _summary(title, names, {str(case) for case in passed}, len(wanted), began)


def _tell(verdict: Verdict) -> None:
    print(verdict, flush=True)


def _summary(title: str, listed: set[str], passed: set[str], ran: int, began: float) -> int:
    failed, new = sorted(listed - passed), sorted(passed - listed)
    print(f"{title}: {len(passed)} of {ran} pass, in {time.monotonic() - began:.0f} s")
    if failed:
        print("FAILED although listed:", *failed, sep="\n  ")
    if new:
        print("passes and is not listed, add it:", *new, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
