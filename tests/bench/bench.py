"""Measures ours beside peers and prints one table. See run.sh for the names and the environment."""
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import bucket
import environments
import gateway
import kube
import losses
import measure
import ours
import peers
import s3
import sources
import space
import spine
import works

EVERY = {**works.EVERY, **spine.EVERY, **space.EVERY, **gateway.EVERY, **s3.EVERY, **kube.EVERY, **losses.EVERY, **sources.EVERY,
         **environments.EVERY}
UNITS = {"s": "{:.2f} s", "ms": "{:.1f} ms", "MB": "{:.2f} MB", "MB/s": "{:,.0f} MB/s", "MiB": "{:.1f} MiB", "KiB": "{:.0f} KiB", "times": "{:.2f} ×", "share": "{:.3f}", "percent": "{:.2f} %",
         "a second": "{:,.0f}/s", "requests": "{:,.0f}"}


class Bench:
    def __init__(self, top):
        self.scale = float(os.environ.get("BENCH_SCALE", "1"))
        self.runs = int(os.environ.get("BENCH_RUNS", "3"))
        # Trees are never deleted between measurements: ext4 skips inodes of files deleted lately, and creating files is then
        # several times slower, for us and for the peers.
        self.folder = top / f"run-{os.getpid()}"
        self.folder.mkdir(parents=True)
        self.peers, self.missing = peers.present(self.folder)
        self.rows = []
        self.source = None

    def say(self, line):
        print(line, file=sys.stderr, flush=True)

    def scaled(self, count):
        return max(1, int(count * self.scale))

    def row(self, work, unit, values, goal, met):
        """values: {"ours" or a peer's name: number}. met: None when there is no goal to hold it against."""
        self.rows.append({"work": work, "unit": unit, "values": values, "goal": goal, "met": met})

    def at_most(self, values, bound):
        """A goal in seconds or bytes says nothing about other sizes."""
        return values["ours"] <= bound if "ours" in values and self.scale == 1 else None

    def at_most_times(self, values, bounds):
        """{peer: times}: None when none of them is there to be compared with."""
        compared = [values["ours"] <= times * values[name] for name, times in bounds.items() if name in values and "ours" in values]
        return all(compared) if compared else None


def cell(row, name):
    value, mine = row["values"].get(name), row["values"].get("ours")
    if value is None:
        return "–"
    text = UNITS[row["unit"]].format(value)
    return text if name == "ours" or not value or mine is None else f"{text} ({mine / value:.2f})"


def table(rows):
    known = ["ours", *(kind.name for kind in peers.EVERY), "xargs", "raw", "by hand", *(kind.name for kind in bucket.EVERY), bucket.NAME]
    names = [name for name in dict.fromkeys(known) if any(name in row["values"] for row in rows)]
    lines = [["work", *names, "goal", "met"]]
    for row in rows:
        met = {True: "yes", False: "no", None: ""}[row["met"]]
        lines.append([row["work"], *(cell(row, name) for name in names), row["goal"], met])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |" for line in lines)


def first_of(path, key):
    for line in pathlib.Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "?"


def machine(folder):
    """What it ran on, in one paragraph."""
    disk = subprocess.run(["df", "--output=source,fstype", folder], capture_output=True, text=True)
    memory = int(first_of("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)
    return (f"{os.cpu_count()} cores of {first_of('/proc/cpuinfo', 'model name')}, {memory:.1f} GiB of memory, disk "
            f"{' '.join(disk.stdout.splitlines()[-1].split())}, Linux {platform.release()}")


def versions(found):
    lines = []
    for peer in found:
        flag = "version" if peer.command in ("restic", "rclone") else "--version"
        said = subprocess.run([peer.command, flag], capture_output=True, text=True).stdout.splitlines()
        lines.append(said[0].split("compiled")[0].strip() if said else peer.command)
    return "; ".join(lines)


def load():
    return "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg())


def measure_all(bench, names):
    for name in names:
        try:
            EVERY[name](bench)
        except (measure.Failed, OSError) as failure:
            bench.say(f"{name}: {failure}")


def main():
    names = sys.argv[1:] or list(EVERY)
    unknown = [name for name in names if name not in EVERY]
    if unknown:
        sys.exit(f"there is no work \"{unknown[0]}\"; works: {' '.join(EVERY)}")
    absent = [name for name in ("pipelined", "pipelinectl", "pipelined-worker", "pl-bench-inputs")
              if not (ours.programs() / name).exists()]
    if absent:
        sys.exit(f"{ours.programs()} has no {', '.join(absent)}")
    top = pathlib.Path(os.environ["BENCH_DIR"]).resolve()
    bench = Bench(top)
    before = load()
    try:
        measure_all(bench, names)
        about = [f"{datetime.datetime.now():%Y-%m-%d %H:%M}; {machine(bench.folder)}; load {before} before, {load()} after."]
        about.append(f"{versions(bench.peers)}." + (f" Not installed: {', '.join(bench.missing)}." if bench.missing else ""))
        about.append(f"Median of up to {bench.runs} runs, peers in turn with ours; in brackets ours ÷ the peer."
                     + (f" Sizes × {bench.scale}: goals in seconds and bytes do not apply." if bench.scale != 1 else ""))
        text = table(bench.rows)
        print("\n".join([text, "", *about]))
        (top / "last.json").write_text(json.dumps({"about": about, "rows": bench.rows}, indent=1, ensure_ascii=False) + "\n")
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
