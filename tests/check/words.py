#!/usr/bin/env python3
"""Nothing in the tree speaks of the machine it was made on, of papers that are not in it, or of work left undone. usage: words.py [CHECKOUT]"""
import re

import sources

FOLDERS = ["storage", "pipelined", "pipelines", "web", "tests", "docs", ".ci", "."]
SUFFIXES = (".c", ".h", ".py", ".sh", ".js", ".mjs", ".ts", ".tsx", ".css", ".html", ".md", ".txt", ".cmake", ".sql", ".json", "run")
THIS = "tests/check/words.py"

FORBIDDEN = [
    (re.compile(r"/work/(?:main|shared|notes|\.\w+)|/root/[.\w]|/tmp/bash_jobs"), "a path of somebody's machine"),
    (re.compile(r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+(?::\d+)?/(?!\d)"), "an address of somebody's network"),
    (re.compile(r"\b[\w-]+\.(?:internal|corp|lan|intranet)\b(?!\.h)"), "a host of somebody's network"),
    (re.compile(r"\b(?:DESIGN|CONTRACTS|STYLE|LANGUAGE)(?:\.md\b| ?§)"), "a paper that is not in the tree: say it here, or name a file of docs/"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b"), "work left undone: do it, or refuse what is not done with an error"),
    (re.compile(r"\bissue #?\d+\b", re.I), "a number that only its tracker knows"),
]


def main():
    top = sources.top_argument()
    paths = {path for folder in FOLDERS if folder != "." for path in sources.files(top, [folder], SUFFIXES)}
    paths |= {path for path in top.iterdir() if path.is_file() and path.name.endswith(SUFFIXES)}
    complaints = []
    for path in sorted(paths):
        short = path.relative_to(top).as_posix()
        if short == THIS or short.startswith("tests/check/test_"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, why in FORBIDDEN:
                found = pattern.search(line)
                if found:
                    complaints.append(f"{short}:{number}: “{found.group(0)}” is {why}")
    sources.report("words", complaints, len(paths))


if __name__ == "__main__":
    main()
