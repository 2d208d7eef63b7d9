#!/usr/bin/env python3
"""The packages that CMake asks for are those that the scripts install. usage: packages.py [CHECKOUT]"""
import re

import sources


def main():
    top = sources.top_argument()
    asked = re.findall(r"^\s*pl_package\(\S+ \S+ \S+ (\S+)\)", (top / "CMakeLists.txt").read_text(encoding="utf-8"), re.M)
    lines = (top / "pipelined/deploy/debian-packages.txt").read_text(encoding="utf-8").splitlines()
    installed = {name for line in lines if line and not line.startswith("#") for name in line.split()[1].split("|")}
    complaints = [f"pipelined/deploy/debian-packages.txt: {name} is missing, CMakeLists.txt asks for it" for name in asked if name not in installed]
    sources.report("packages", complaints, len(asked))


if __name__ == "__main__":
    main()
