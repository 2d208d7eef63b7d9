"""Datums for stages in Python; uses only the standard library.

    import pl
    model = load()                       # once, with "datum": {"batch": true}
    for d in pl.datums():
        image = read(d["images"])        # path of the input named images
        write(f"{d.out}/label.txt", model(image), d.params)

Without `batch`, datums() yields the one datum that the command was started for. With it, the next round of the loop
commits the files in d.out; d.fail("why") makes this datum fail, and the loop continues. An exception ends the command, and the current datum fails."""
import json
import os
import socket


class Datum:
    """One datum: paths of its inputs by name, `out` the folder to write to, `params`, `id`, `seed`, `env` (its own variables)."""

    def __init__(self, inputs, out, env):
        self.inputs, self.out, self.env = inputs, out, env
        self.id = env.get("PL_DATUM_ID", "")
        self.seed = int(env.get("PL_SEED", "0"))
        self.failed = None
        path = os.path.join(os.path.dirname(out), "params", "params.json")
        self.params = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.params = json.load(f)

    def __getitem__(self, name):
        if name not in self.inputs:
            raise KeyError(f"no input is named {name!r}; there are: {', '.join(sorted(self.inputs)) or 'none'}")
        return self.inputs[name]

    def __contains__(self, name):
        return name in self.inputs

    def fail(self, message):
        """This datum fails with that message; go on to the next one."""
        self.failed = str(message) or "failed"


def _ask(line):
    path = os.environ["PL_NEXT_SOCKET"]
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            s.sendall(line.encode("utf-8", "replace") + b"\n")
            answer = s.makefile("rb").readline().decode("utf-8", "replace").rstrip("\n")
    finally:
        os.close(folder)
    if answer in ("ok", "end"):
        return answer == "ok"
    raise RuntimeError(answer.removeprefix("error ") or "the worker disconnected")


def _current(out):
    with open(os.path.join(os.path.dirname(out), ".datum.json"), encoding="utf-8") as f:
        note = json.load(f)
    return Datum(note["inputs"], out, note["env"])


def _only(out):
    folder = os.path.dirname(out)
    inputs = {}
    for name in sorted(os.listdir(folder)):
        variable = "PL_INPUT_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name).upper()
        if variable in os.environ:
            inputs[name] = os.environ[variable]
    return Datum(inputs, out, dict(os.environ))


def datums():
    """Yields every datum that this command is given."""
    out = os.environ["PL_OUT"]
    if "PL_NEXT_SOCKET" not in os.environ:
        datum = _only(out)
        yield datum
        if datum.failed is not None:
            raise SystemExit(f"failed: {datum.failed}")
        return
    line = "next"
    while _ask(line):
        datum = _current(out)
        yield datum
        line = "next" if datum.failed is None else "fail " + " ".join(datum.failed.split())[:1000]
