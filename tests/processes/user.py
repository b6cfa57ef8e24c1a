"""A process that uses the embedded database of a home until its standard input ends.

Run with the home as argument. It prints the URL when the server is up, and "left" when it no longer uses it. Only the
standard library and `persistence.embedded` are needed, so any user with a Python can run it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from persistence import embedded

if __name__ == "__main__":
    options = {"fsync": "off"}
    with embedded.server(Path(sys.argv[1]), options=options) as url:
        print(url, flush=True)
        sys.stdin.read()
    print("left", flush=True)
