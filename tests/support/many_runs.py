"""Writes many finished runs into the database of a daemon that is stopped: what a year of work leaves behind. Usage: many_runs.py DATA RUNS JOBS.

Each run has JOBS jobs of the pipelines p0 … p9 of the project default; one in a hundred failed. The runs are older than all that the daemon made."""
import contextlib
import json
import os
import sqlite3
import sys

MINUTE_US = 60_000_000
FIRST_US = 1_600_000_000_000_000


def make(data, runs, jobs):
    with contextlib.closing(sqlite3.connect(os.path.join(data, "pipelined.db"))) as db:
        db.execute("PRAGMA synchronous=OFF")
        taken, = db.execute("SELECT coalesce(max(ord), 0) FROM run").fetchone()
        db.execute("UPDATE run SET ord = ord + ? WHERE ord > 0", [10 * (runs + taken)])  # ord is unique: away from the new ones, then these below

        def rows():
            for i in range(runs):
                failed = i % 100 == 7
                yield (f"{i:032x}", 0, i + 1, "manual", f"night {i}", "failure" if failed else "success", FIRST_US + i * MINUTE_US, FIRST_US + (i + 1) * MINUTE_US)

        def job_rows():
            counts = json.dumps({"total": 12, "reused": 8, "done": 4, "failed": 0, "attempts": 4})
            for i in range(runs):
                for k in range(jobs):
                    state = "failure" if i % 100 == 7 and k == jobs - 1 else "success"
                    yield (f"{i:032x}", "default", f"s{k}", 0, f"p{i % 10}", state, counts, FIRST_US + i * MINUTE_US, FIRST_US + i * MINUTE_US + 1, FIRST_US + (i + 1) * MINUTE_US)
        db.executemany("INSERT INTO run(id, seq, ord, cause, message, state, created_us, finished_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows())
        db.executemany("INSERT INTO job(run, project, stage, version, pipeline, state, counts, final, planned, created_us, started_us, finished_us)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?)", job_rows())
        db.commit()


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
