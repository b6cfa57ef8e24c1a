"""Write the clients: `python -m openapi.clients FOLDER ARCHIVES`, in the folder of the project.

`FOLDER` gets the packages `python` and `typescript`, `ARCHIVES` the archive of the latter.
"""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

from openapi.clients.packages import write_packages

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m openapi.clients FOLDER ARCHIVES")
    settings = configparser.ConfigParser()
    settings.read("setup.cfg", encoding="utf-8")
    write_packages(Path(sys.argv[1]), Path(sys.argv[2]), settings["metadata"]["version"])
