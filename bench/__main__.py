"""All benchmarks, or those named: `python -m bench [NAME ...]`; see docs/performance.md."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "expressions",
    "http_layer",
    "libraries",
    "tracking",
    "single_calls",
    "way_of_a_call",
    "enrolling",
    "campaigns",
    "simulations",
    "prices",
    "queue",
    "ledger",
    "coupon_usages",
    "coupon_lists",
    "reports",
    "content",
    "timeline",
    "imports",
)


def main() -> int:
    """Run each benchmark in a process of its own, so that none warms up for another."""
    benchmark_names = sys.argv[1:] or list(BENCHMARKS)
    unknown = sorted(set(benchmark_names) - set(BENCHMARKS))
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in benchmark_names:
        print(f"## {name}", flush=True)
        result = subprocess.run([sys.executable, "-m", f"bench.{name}"])
        if result.returncode:
            return result.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
