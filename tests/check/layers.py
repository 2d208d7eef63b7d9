#!/usr/bin/env python3
"""Includes follow the layers: daemon → {api, exec, git, cli, agent} → {kube, net, db} → core → storage/{tree, base}; what is above core
may use all of storage; no arrow between siblings; core knows no I/O, clock or threads. One exception: the API includes the
engine's header, which lies in daemon. usage: layers.py [CHECKOUT]"""
import re

import sources

STORAGE = {"storage/base", "storage/object", "storage/chunk", "storage/pack", "storage/tree", "storage/dataset"}
CORE = {"storage/base", "storage/tree", "pipelined/core"}
SERVICES = {"pipelined/kube", "pipelined/net", "pipelined/db"}
FACES = {"pipelined/api", "pipelined/exec", "pipelined/git", "pipelined/cli", "pipelined/agent"}
ABOVE_CORE = STORAGE | {"pipelined/core"}

MAY_INCLUDE = {
    "storage/base": set(),
    "storage/object": {"storage/base"},
    "storage/chunk": {"storage/base"},
    "storage/tree": {"storage/base"},
    "storage/pack": {"storage/base", "storage/object", "storage/chunk"},
    "storage/dataset": STORAGE,
    "pipelined/core": CORE,
    **{folder: ABOVE_CORE for folder in SERVICES},
    **{folder: ABOVE_CORE | SERVICES for folder in FACES},
    "pipelined/daemon": ABOVE_CORE | SERVICES | FACES,
}
# Pairs of folder and header that are allowed beyond that.
ALSO = {("pipelined/api", "pipelined/daemon/engine.h")}
# core decides and does nothing else: these would let it act, wait or look at a clock.
NOT_IN_CORE = re.compile(r"<(uv|sqlite3|microhttpd|git2|pthread|threads|time|fcntl|poll|signal|dirent)\.h>|<(curl|net|netinet|arpa|sys(?!/(queue|types)\.h))/"
                         r"|\"storage/base/(io|pool|log)\.h\"|\bpl_clock_(mono|wall)\w*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"][^>"]+[>"])', re.M)


def folder_of(path):
    """storage/tree/node.c -> storage/tree; pipelined/core/sched/x.c -> pipelined/core."""
    return "/".join(path.split("/")[:2])


def complaints_of(top, path):
    short = path.relative_to(top).as_posix()
    own = folder_of(short)
    if own not in MAY_INCLUDE:
        yield f"{short}: the folder {own} has no place in the layers: add it to layers.py and docs/architecture.md"
        return
    text = path.read_text(encoding="utf-8")
    for number, row in enumerate(text.splitlines() if own == "pipelined/core" else [], 1):
        if NOT_IN_CORE.search(row):
            yield f"{short}:{number}: core may not do I/O, wait or see a clock: {row.strip()}"
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        included = match.group(1).strip('<>"')
        if not included.startswith(("storage/", "pipelined/")):
            continue
        target = folder_of(included)
        if target != own and target not in MAY_INCLUDE[own] and (own, included) not in ALSO:
            yield f"{short}:{line}: {own} may not include {included}"


def main():
    top = sources.top_argument()
    code = sources.files(top, ["storage", "pipelined"], (".c", ".h"))
    sources.report("layers", [line for path in code for line in complaints_of(top, path)], len(code))


if __name__ == "__main__":
    main()
