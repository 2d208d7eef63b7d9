"""Data that the pages show: a pipeline whose datums partly fail, one that fails, one that waits for a GPU, names that try to be markup."""
import json
import pathlib
import struct
import zlib

# name of a file or text that would be markup, script, or deceive the eye if it were not shown as text
INJECTION = {
    "tag": "<img src=x onerror=window.hit=1>.txt",
    "quote": "\"'><svg onload=window.hit=2>.txt",
    "template": "{{7*7}}${7*7}.txt",
    "bidi": "invoice\u202etxt.exe",
    "percent": "100%2e%2e%2f.txt",
    "spaces": "a b  c#d?e&f.txt",
}
EVIL_SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="window.hit=3"><script>window.hit=4</script>
<rect width="40" height="40" fill="green"/></svg>"""

DECODE = r"""
import os, sys, pathlib
path = pathlib.Path(os.environ["PL_INPUT_PHOTOS"])
print("decode 4.2.0, 1 photo")
print("reading", path.name, "<b>not bold</b>")
data = path.read_bytes()
if path.name.startswith("oom"):
    sys.exit("MemoryError: %d bytes" % 123456)
if not data:
    raise ValueError("cannot identify image file '%s'" % path)
out = pathlib.Path(os.environ["PL_OUT"]) / path.name
out.write_bytes(data)
"""
TRAIN = r"""
import json, os, pathlib
out = pathlib.Path(os.environ["PL_OUT"])
for step in range(1, 31):
    print("\repoch %d of 30" % step, end="")
    with open(out / "metrics.jsonl", "a") as f:
        f.write(json.dumps({"step": step, "loss": 1 / step, "val_acc": 0.9 - 0.5 / step, "progress": step / 30}) + "\n")
print()
(out / "model.bin").write_bytes(b"\0" * 4096)
"""


def png(width, height):
    """A small picture."""
    rows = b"".join(b"\0" + bytes((x * 255 // width, y * 255 // height, 120) [c] for x in range(width) for c in range(3)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def street():
    """decode leaves out what fails, split and train go on; embed wants a GPU that is not there; broken fails, and what reads it cannot run."""
    def python(text):
        return ["python3", "-c", text]
    copy = 'import os, pathlib; (pathlib.Path(os.environ["PL_OUT"]) / "%s").write_text("a,b\\n1,2\\n")'
    return {"pipeline": "street", "repos": {"photos": {}, "labels": {}}, "stages": [
        {"name": "decode", "input": {"repo": "photos", "glob": "/*/*"}, "workers": 2, "on_error": "skip", "run": python(DECODE),
         "output": {"prefix": "${photos.stem}/"}},
        {"name": "split", "input": {"cross": [{"repo": "decode"}, {"repo": "labels"}]}, "run": python(copy % "split.csv")},
        {"name": "train-vit", "input": {"repo": "split"}, "run": python(TRAIN)},
        {"name": "evaluate", "input": {"cross": [{"repo": "train-vit"}, {"repo": "split"}]}, "run": python('import sys; print("Traceback (most recent call last):"); sys.exit("AssertionError: val_acc 0.86 is below 0.87")')},
        {"name": "export", "input": {"repo": "evaluate"}, "run": ["true"]},
        {"name": "embed", "input": {"repo": "split"}, "gpu": 2, "run": ["true"]}]}


def files(folder):
    """Writes the files of photos and labels below a folder -> the two folders."""
    photos, labels = pathlib.Path(folder) / "photos", pathlib.Path(folder) / "labels"
    for place in (photos / "lisbon", photos / "porto", photos / "names", labels):
        place.mkdir(parents=True, exist_ok=True)
    for n in range(6):
        (photos / "lisbon" / f"IMG_{20931 + n}.jpg").write_bytes(b"" if n < 3 else png(64 + n, 48))
    (photos / "porto" / "IMG_1.png").write_bytes(png(320, 200))
    (photos / "porto" / "oom.png").write_bytes(png(8, 8))
    (photos / "porto" / "evil.svg").write_bytes(EVIL_SVG)
    for text in INJECTION.values():
        (photos / "names" / text).write_text("<script>window.hit=5</script>\n", encoding="utf-8")
    (labels / "labels.csv").write_text("path,label,confidence\n" + "".join(f"/lisbon/IMG_{n}.jpg,{n % 10},{n / 300:.4f}\n" for n in range(300)))
    (labels / "notes.json").write_text(json.dumps({"by": "<b>ana</b>", "n": [1, 2, {"deep": None}]}))
    (labels / "readme.md").write_text("# Labels\n\nBy hand.\n")
    return photos, labels
