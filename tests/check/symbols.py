#!/usr/bin/env python3
"""Every symbol that our libraries define for others starts with pl_. usage: symbols.py BUILD_FOLDER"""
import pathlib
import subprocess
import sys

import sources

DEFINED = set("TDBRCVWSGu")


def global_symbols(library):
    """-> (object file, symbol) of what `library` defines; names of compilers and sanitizers (two underscores) left out."""
    out = subprocess.run(["nm", "-A", "-g", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    for row in out.splitlines():
        place, _, rest = row.partition(" ")
        kind, name = (place.split(":")[-1] + " " + rest).split()[-2:]
        if kind in DEFINED and not name.startswith("__"):
            yield place.split(":")[1], name


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    libraries = sorted(pathlib.Path(sys.argv[1]).rglob("libpl_*.a"))
    complaints = [f"{library.name}: {member}: {name} does not start with pl_" for library in libraries
                  for member, name in global_symbols(library) if not name.startswith("pl_") and name != "main"]
    sources.report("symbols", complaints, len(libraries))


if __name__ == "__main__":
    main()
