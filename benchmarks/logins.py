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


def cpu_us(converse: Converse, case: str, times: int) -> float:
    """The median of seven bursts."""
    bursts = []
    for _ in range(7):
        began = time.process_time()
        for _ in range(times):
            converse(case)
        bursts.append((time.process_time() - began) / times * 1e6)
    return median(bursts)


def main() -> None:
    """Parse arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    times = 50 if parser.parse_args().quick else 2000
    print("| mechanism | " + " | ".join(CASES) + " | wrong user / wrong password |")
    print("|---|" + "---|" * (len(CASES) + 1))
    for name, converse in SCRAM_AND_PLAIN.items():
        spent = {case: cpu_us(converse, case, times) for case in CASES}
        ratio = spent["wrong user"] / spent["wrong password"]
        cells = " | ".join(f"{spent[case]:.1f} us" for case in CASES)
        print(f"| {name} | {cells} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
