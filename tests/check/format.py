#!/usr/bin/env python3
"""The C code is as clang-format 14 lays it out. usage: format.py [CHECKOUT]"""
import subprocess

import sources


def main():
    top = sources.top_argument()
    code = sources.files(top, ["storage", "pipelined", "tests"], (".c", ".h"))
    complaints = []
    for path in code:
        done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--ferror-limit=1", str(path)], capture_output=True, text=True)
        if done.returncode != 0:
            line = done.stderr.split(":")[1] if done.stderr.count(":") > 2 else "?"
            complaints.append(f"{path.relative_to(top)}:{line}: not formatted; run: clang-format-14 -i {path.relative_to(top)}")
    sources.report("format", complaints, len(code))


if __name__ == "__main__":
    main()
