#!/usr/bin/env python3
"""The top comment of pipelined/daemon/main.c names every folder and every .c file of storage/ and pipelined/. usage: map.py [CHECKOUT]"""
import re
import sys

import sources

MAIN = "pipelined/daemon/main.c"


def main():
    top = sources.top_argument()
    if not (top / MAIN).is_file():
        sys.exit(f"{MAIN} is missing, and the map with it")
    comment = re.match(r"\s*/\*.*?\*/", (top / MAIN).read_text(encoding="utf-8"), re.S)
    words = set(re.findall(r"[\w./-]+", comment.group(0))) if comment else set()
    words |= {part for word in words for part in (word.rstrip("./"), word.rstrip("./").split("/")[-1])}
    code = sources.files(top, ["storage", "pipelined"], (".c",))
    complaints = []
    for path in code:
        if path.stem not in words and path.name not in words:
            complaints.append(f"{path.relative_to(top)}: the map in {MAIN} does not name it")
    for folder in sorted({path.parent.relative_to(top).as_posix() for path in code}):
        if folder not in words and folder.split("/")[-1] not in words:
            complaints.append(f"{folder}/: the map in {MAIN} does not name it")
    sources.report("map", complaints, len(code))


if __name__ == "__main__":
    main()
