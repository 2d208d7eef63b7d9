#!/usr/bin/env python3
"""Rooms use each other as the pl_room calls of the CMakeLists.txt files say. usage: layers.py [CHECKOUT]

A room is a folder of storage/ or pipelined/ with .c or .h files. Each has at most FILES_MAX of them and a face, a header that is named after it and
whose first comment names each file of the room. Its files include no room but those of its USES line, and of these the face and the headers that the
face lists for other rooms. The first comment of pipelined/daemon/main.c names all rooms in MAP_MAX lines. Rooms use each other in one direction only,
and as the layers allow: daemon -> {api, s3gateway, engine, source, notify, exec, git, cli, agent} -> {kube, net, db, forge, nvml, sandbox_view} -> {graph, sched, plan, spec, merge, metrics, gpus, failure, provenance, text, policy} ->
storage/{base, tree, tree_edit}; what is above the pure rooms may use all of storage. Pure rooms know no I/O, clock or threads."""
import collections
import re

import sources

FILES_MAX = 25
MAP = "pipelined/daemon/main.c"
MAP_MAX = 25
RANK = {"daemon": 5,
        "api": 4, "s3gateway": 4, "engine": 4, "source": 4, "notify": 4, "exec": 4, "git": 4, "cli": 4, "agent": 4,
        "kube": 3, "net": 3, "db": 3, "forge": 3, "nvml": 3, "sandbox_view": 3,
        "graph": 2, "sched": 2, "plan": 2, "spec": 2, "merge": 2, "metrics": 2, "gpus": 2, "failure": 2, "provenance": 2, "text": 2, "policy": 2}
PURE = 2
PURE_MAY = {"storage/base", "storage/tree", "storage/tree_edit"}
SIDEWAYS = {("api", "engine"), ("api", "source"), ("api", "notify"), ("engine", "exec")}
GATEWAY_MAY = {"pipelined/api/access", "pipelined/api/transfer"}
# Pure rooms decide and do nothing else: these would let them act, wait or look at a clock.
NOT_PURE = re.compile(r"<(uv|sqlite3|microhttpd|git2|pthread|threads|time|fcntl|poll|signal|dirent)\.h>|<(curl|net|netinet|arpa|sys(?!/(queue|types)\.h))/"
                      r"|\bpl_clock_(mono|wall)\w*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ROOM = re.compile(r"^pl_room\((\S+?)(?:\s([^)]*))?\)", re.M)


def rooms_of(top):
    """-> {room: set of rooms that it uses}, as cmake links them."""
    rooms = {}
    for path in sorted([*(top / "storage").rglob("CMakeLists.txt"), *(top / "pipelined").rglob("CMakeLists.txt")]):
        for room, rest in ROOM.findall(path.read_text(encoding="utf-8")):
            uses = re.search(r"\bUSES\s+(.*?)(?:\s(?:SOURCES|LIBRARIES)\b|$)", rest, re.S)
            rooms[room] = set(uses.group(1).split()) if uses else set()
    return rooms


def may_not(user, used):
    """Why the layers do not let the room `user` use the room `used`; None if they do."""
    if user.startswith("storage/"):
        return "storage uses nothing of pipelined" if used.startswith("pipelined/") else None
    x = user.split("/")[1]
    if used.startswith("storage/"):
        return "pure rooms use storage/{base, tree, tree_edit} alone" if RANK[x] == PURE and used not in PURE_MAY else None
    y = used.split("/")[1]
    if x == y or RANK[x] > RANK[y] or RANK[x] == RANK[y] == PURE or (x, y) in SIDEWAYS or (x == "s3gateway" and used in GATEWAY_MAY):
        return None
    return "that is upward" if RANK[x] < RANK[y] else "that is sideways"


def cycle_of(rooms):
    """Rooms that use each other in a circle; None if there is none."""
    state = {}

    def visit(room, path):
        state[room] = "open"
        for used in sorted(rooms.get(room, ())):
            if state.get(used) == "open":
                return [*path[path.index(used):], used]
            found = visit(used, [*path, used]) if used not in state else None
            if found:
                return found
        state[room] = "done"
        return None

    for room in sorted(rooms):
        found = visit(room, [room]) if room not in state else None
        if found:
            return found
    return None


def first_comment(path):
    found = re.match(r"/\*.*?\*/", path.read_text(encoding="utf-8"), re.S) if path.is_file() else None
    return found.group(0) if found else ""


def face_of(top, room):
    """-> (the first comment of the room's face, the names of the headers that it lists for other rooms)."""
    text = first_comment(top / room / (room.rsplit("/", 1)[1] + ".h"))
    listed = re.search(r"Headers for other rooms:\n(.*?)(?:\n \*\n|\*/)", text, re.S)
    return text, set(re.findall(r"^ \*   (\w+)", listed.group(1), re.M)) if listed else set()


def map_complaints(top, rooms):
    text = first_comment(top / MAP)
    named = set()
    for folder, names in re.findall(r"([\w/]*/)?\{([^}]*)\}", text):
        named |= {folder + name.strip() for name in names.split(",")}
    named |= set(re.findall(r"[\w/]+", text))
    if text.count("\n") + 1 > MAP_MAX:
        yield f"{MAP}: the map has {text.count(chr(10)) + 1} lines, at most {MAP_MAX}"
    for room in sorted(rooms):
        if room not in named and room.removeprefix("pipelined/") not in named:
            yield f"{MAP}: the map does not name the room {room}"


def complaints_of(top, path, rooms, faces):
    short = path.relative_to(top).as_posix()
    own = short.rsplit("/", 1)[0]
    text = path.read_text(encoding="utf-8")
    if own not in rooms:
        yield f"{short}: no CMakeLists.txt has a pl_room({own})"
        return
    pure = own.startswith("pipelined/") and RANK[own.split("/")[1]] == PURE
    for number, row in enumerate(text.splitlines() if pure else [], 1):
        if NOT_PURE.search(row):
            yield f"{short}:{number}: a pure room may not do I/O, wait or see a clock: {row.strip()}"
    for match in INCLUDE.finditer(text):
        used = match.group(1).rsplit("/", 1)[0] if "/" in match.group(1) else None
        if used and used != own and used not in rooms[own]:
            yield f"{short}:{text.count(chr(10), 0, match.start()) + 1}: {own} does not use {used}: leave out {match.group(1)}, or add the room to its USES"
        elif used and used != own:
            header = match.group(1).rsplit("/", 1)[1].removesuffix(".h")
            if header != used.rsplit("/", 1)[1] and header not in faces[used][1]:
                yield f"{short}:{text.count(chr(10), 0, match.start()) + 1}: the face of {used} does not list {header} for other rooms"


def main():
    top = sources.top_argument()
    code = sources.files(top, ["storage", "pipelined"], (".c", ".h"))
    rooms = rooms_of(top)
    faces = {room: face_of(top, room) for room in rooms}
    complaints = list(map_complaints(top, rooms)) if (top / MAP).is_file() else []
    files = collections.Counter(path.relative_to(top).as_posix().rsplit("/", 1)[0] for path in code)
    for room, n in sorted(files.items()):
        if n > FILES_MAX:
            complaints.append(f"{room}: {n} files, at most {FILES_MAX}: two rooms")
        if not (top / room / (room.rsplit("/", 1)[1] + ".h")).is_file():
            complaints.append(f"{room}: it has no face, a header {room.rsplit('/', 1)[1]}.h")
        elif room in rooms:
            words = set(re.findall(r"^ \*   (\w+)", faces[room][0], re.M)) | {room.rsplit("/", 1)[1]}
            unnamed = sorted({path.stem for path in code if path.parent == top / room} - words)
            complaints += [f"{room}: its face does not name {stem}" for stem in unnamed]
    for user, used in sorted((a, b) for a in rooms for b in rooms[a]):
        if user.startswith("pipelined/") and user.split("/")[1] not in RANK:
            complaints.append(f"{user}: it has no place in the layers: add it to RANK of layers.py")
        elif may_not(user, used):
            complaints.append(f"{user} may not use {used}: {may_not(user, used)}")
    circle = cycle_of(rooms)
    if circle:
        complaints.append("rooms that use each other in a circle: " + " -> ".join(circle))
    complaints += [line for path in code for line in complaints_of(top, path, rooms, faces)]
    if files:
        print(f"layers: {len(files)} rooms, the largest has {max(files.values())} files")
    sources.report("layers", complaints, len(code))


if __name__ == "__main__":
    main()
