"""Attack a fleet and judge what it promised.

python -m tests.faults [--minutes M] [--seed N] [--only NEMESIS ...] [--brokers 3] [--guarded]
python -m tests.faults SCENARIO ... | list
"""

import argparse
import random
import sys

from tests.faults import scenarios, schedule
from tests.faults.run import Shape, judged, under
from tests.faults.workers import Worker


def main() -> int:
    options = _options()
    if options.scenarios == ["list"]:
        _list()
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    Worker.traced = options.trace
    if options.scenarios:
        passed = [_scenario(name, seed, options.brokers) for name in options.scenarios]
        return 0 if all(passed) else 1
    return _attack(options, seed)


def _attack(options: argparse.Namespace, seed: int) -> int:
    names = options.only or schedule.possible(options.etcd)
    steps = schedule.plan(seed, options.minutes * 60, names, options.brokers, options.etcd)
    shape = Shape(
        brokers=options.brokers,
        etcd_members=options.etcd,
        per_s=options.rate,
        guarded=options.guarded,
        transactors=options.transactors,
    )
    print(
        f"{options.brokers} brokers, {options.etcd} members of etcd, {len(steps)} faults of "
        f"{', '.join(names)}",
        flush=True,
    )
    verdict = judged("run", shape, seed, under(steps), _say)
    print(f"\n{verdict}\nseed {seed}, {verdict.seconds:.0f} s")
    return 1 if verdict.findings else 0


def _scenario(name: str, seed: int, brokers: int) -> bool:
    print(f"\n{name}: {scenarios.ALL[name].__doc__}", flush=True)
    result = scenarios.ALL[name](seed, brokers, _say)
    print(result)
    return result.passed


def _list() -> None:
    for name, (what, *_) in schedule.FAULTS.items():
        print(f"  --only {name:16} {what}")
    for name, scenario in scenarios.ALL.items():
        print(f"  {name:23} {(scenario.__doc__ or '').splitlines()[0]}")


def _say(text: str) -> None:
    print(text, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", action="append", choices=list(schedule.FAULTS), metavar="NEMESIS")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--etcd", type=int, default=3, help="members of etcd (3)")
    parser.add_argument("--rate", type=float, default=300.0, help="records/s of each writer (300)")
    parser.add_argument(
        "--transactors", type=int, default=0, help="clients that make transactions (0)"
    )
    parser.add_argument(
        "--guarded", action="store_true", help="with TLS, logins, access control lists, quotas"
    )
    parser.add_argument(
        "--trace", action="store_true", help="stderr: what members and transactors do"
    )
    options = parser.parse_args()
    for name in options.scenarios:
        if name not in scenarios.ALL and options.scenarios != ["list"]:
            parser.error(f"no scenario {name}; there are {', '.join(scenarios.ALL)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
