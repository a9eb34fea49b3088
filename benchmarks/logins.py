"""What a login costs the broker, and that it does not tell whether a user exists.

    python -m benchmarks.logins [--quick]

CPU time of the broker's side of one conversation, by mechanism: the right password, a wrong one, a
user that does not exist. The last two must not differ. That both take the same steps is tested
(tests/unit/access/test_same_steps.py); this prints the time.
"""

import argparse
import time
from statistics import median

from tests.unit.access.conversations import CASES, SCRAM_AND_PLAIN, Converse


def cpu_us(converse: Converse, times: int) -> dict[str, float]:
    """The medians of seven bursts of each case, in turns: what disturbs one disturbs all."""
    bursts: dict[str, list[float]] = {case: [] for case in CASES}
    for _ in range(7):
        for case in CASES:
            began = time.process_time()
            for _ in range(times):
                converse(case)
            bursts[case].append((time.process_time() - began) / times * 1e6)
    return {case: median(spent) for case, spent in bursts.items()}


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    times = 50 if parser.parse_args().quick else 2000
    print("| mechanism | " + " | ".join(CASES) + " | wrong user / wrong password |")
    print("|---|" + "---|" * (len(CASES) + 1))
    for name, converse in SCRAM_AND_PLAIN.items():
        spent = cpu_us(converse, times)
        ratio = spent["wrong user"] / spent["wrong password"]
        cells = " | ".join(f"{spent[case]:.1f} us" for case in CASES)
        print(f"| {name} | {cells} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
