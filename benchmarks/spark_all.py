"""Every measurement of the data pipeline in turn: `make bench-spark`, `make bench-spark QUICK=1`.

In this room: which parts there are, and how small they get where the question is only whether they
run. The figures of a quick run mean nothing: starting Spark outweighs the work.
Next door: the parts, each a program of its own with its own options.
"""

import argparse
import subprocess
import sys
import time

BELOW_BAR = 3  # what a part ends with when it ran and was too slow

# part -> what makes it small
PARTS = {
    "kernels": ["--gb", "0.1", "--runs", "1"],
    "source": ["--gb", "0.1", "--runs", "1"],
    "export": ["--mb", "50", "--runs", "1"],
    "jobs": ["--mb", "50", "--objects", "500", "--runs", "1"],
    "sink": ["--rows", "20000", "--runs", "1"],
    "tables": ["--mb", "50", "--topics", "1000", "--runs", "1"],
    "freshness": ["--seconds", "15", "--mb-per-s", "1", "--freshness-ms", "5000"],
    "requests": ["--seconds", "15", "--mb-per-s", "1", "--freshness-ms", "5000"],
    "growth": ["--gb", "0.05,0.1", "--runs", "1", "--objects", "1000"],
}


def main() -> None:
    """Run the parts, all of them; what failed or stayed below a bar is named at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only see that everything runs")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    wrong = []
    for part in given.only:
        print(f"\n== benchmarks.spark_{part}", flush=True)
        began = time.perf_counter()
        words = PARTS[part] if given.quick else []
        done = subprocess.run([sys.executable, "-m", f"benchmarks.spark_{part}", *words])
        print(f"-- {time.perf_counter() - began:.0f} s", flush=True)
        if done.returncode and not (given.quick and done.returncode == BELOW_BAR):
            wrong.append(
                f"{part} ({'below its bar' if done.returncode == BELOW_BAR else 'failed'})"
            )
    if wrong:
        sys.exit(f"not as it should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
