"""Pods: the executor `kubernetes` by itself, against the fake API server in another process."""
import json
import subprocess

import ours


def played(*words):
    return json.loads(subprocess.run([ours.programs() / "pl-bench-pods", *map(str, words)], stdout=subprocess.PIPE, check=True).stdout)


def pods(bench):
    bench.say("pods: the executor alone, against a fake API server whose pods run as soon as they are there")
    done = played(bench.scaled(20000), 100, 0)
    bench.row("pods created and seen running, against the fake API server", "a second", {"ours": done["rate"]}, "≥ 1,000/s", done["rate"] >= 1000)
    bench.row(f"{done['pods']} live pods (RssAnon)", "MiB", {"ours": done["rss_mib"]}, "≤ 200 MiB", done["rss_mib"] <= 200)
    done = played(bench.scaled(5000), 100, 0)
    bench.row(f"a second life adopts {done['pods']} running pods", "s", {"ours": done["adopt_s"]}, "≤ 3 s", done["adopt_s"] <= 3)
    done = played(1, bench.scaled(10000), bench.scaled(50000))
    bench.row(f"{done['nodes']} nodes, {done['foreign']} foreign pods: what is known of them (RssAnon)", "MiB", {"ours": done["rss_mib"]}, "≤ 60 MiB",
              done["rss_mib"] <= 60)
    bench.row("whether one more shape would fit there", "ms", {"ours": done["decision_us"] / 1000}, "≤ 1 ms", done["decision_us"] <= 1000)


EVERY = {"pods": pods}
