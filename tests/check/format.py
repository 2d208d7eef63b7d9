#!/usr/bin/env python3
"""The C code is as clang-format 14 lays it out. usage: format.py [CHECKOUT]"""
import concurrent.futures
import os
import subprocess

import sources


def complaint(path):
    """The first line that is laid out otherwise; "?" when clang-format says none; None when all is well."""
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--ferror-limit=1", str(path)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return done.stderr.split(":")[1] if done.stderr.count(":") > 2 else "?"


def main():
    top = sources.top_argument()
    code = sources.files(top, ["storage", "pipelined", "tests"], (".c", ".h"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        lines = list(threads.map(complaint, code))
    complaints = [f"{path.relative_to(top)}:{line}: not formatted; run: clang-format-14 -i {path.relative_to(top)}"
                  for path, line in zip(code, lines) if line]
    sources.report("format", complaints, len(code))


if __name__ == "__main__":
    main()
