#!/usr/bin/env python3
"""Functions have at most 120 lines and complexity 25 (pmccabe), files at most 800 lines; how many functions are longer than 80 lines or more complex
than 15, which is what they should be, is printed. usage: size.py [CHECKOUT]"""
import subprocess

import sources

FUNCTION_LINES, WANTED_LINES = 120, 80
COMPLEXITY, WANTED_COMPLEXITY = 25, 15
FILE_LINES = 800
# Flat switches that are tables in truth: path:function -> why. An entry that is no longer needed is a complaint.
TABLES = {}


def functions(paths):
    """-> (path, line, name, complexity, lines) of every function."""
    out = subprocess.run(["pmccabe", *map(str, paths)], capture_output=True, text=True, check=True).stdout
    for row in out.splitlines():
        _, complexity, _, _, lines, rest = row.split(None, 5)
        place, _, name = rest.rpartition(": ")
        path, _, line = place.rstrip(")").rpartition("(")
        yield path, int(line), name, int(complexity), int(lines)


def main():
    top = sources.top_argument()
    code = sources.files(top, ["storage", "pipelined", "tests"], (".c", ".h"))
    every = code + sources.files(top, ["web", "pipelines", "tests", ".ci"], (".py", ".sh", ".js", ".mjs", ".ts", ".tsx", ".css", ".html"))
    every = [path for path in every if path.name != "schema.d.ts"]  # generated
    complaints, unused = [], set(TABLES)
    long = complex_ones = 0
    for path in every:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            complaints.append(f"{path.relative_to(top)}: {lines} lines, at most {FILE_LINES}")
    for path, line, name, complexity, lines in functions([path for path in code if path.suffix == ".c"]):
        short = path.removeprefix(f"{top}/")
        long += lines > WANTED_LINES
        complex_ones += complexity > WANTED_COMPLEXITY
        if lines > FUNCTION_LINES:
            complaints.append(f"{short}:{line}: {name} has {lines} lines, at most {FUNCTION_LINES}")
        if complexity > COMPLEXITY:
            if f"{short}:{name}" in TABLES:
                unused.discard(f"{short}:{name}")
            else:
                complaints.append(f"{short}:{line}: {name} has complexity {complexity}, at most {COMPLEXITY}")
    if top == sources.TOP:
        complaints += [f"size.py: {entry} no longer needs its entry in TABLES" for entry in sorted(unused)]
    print(f"size: {long} functions of more than {WANTED_LINES} lines, {complex_ones} of a complexity above {WANTED_COMPLEXITY}")
    sources.report("size", complaints, len(code))


if __name__ == "__main__":
    main()
