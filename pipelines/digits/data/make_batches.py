#!/usr/bin/env python3
"""Cuts digits.csv.gz into the batches of this folder: train/b1.csv … b8.csv and test/b1.csv, b2.csv.

usage: make_batches.py DIGITS_CSV_GZ [FOLDER]

The source file is sorted by writer, so a cut without shuffling would give each batch other hands: the rows are shuffled once with a
fixed seed, then four fifths become the training batches and one fifth is held back for testing. Same file, same bytes.
"""
import csv
import gzip
import hashlib
import pathlib
import random
import sys

SOURCE_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
SEED = 1998
TRAIN_BATCHES = 8
TEST_BATCHES = 2
TEST_ROWS = 360
HEADER = [f"p{y}{x}" for y in range(8) for x in range(8)] + ["label"]


def parts(rows, count):
    """`rows` in `count` runs whose lengths differ by at most one."""
    size, longer = divmod(len(rows), count)
    at = 0
    for i in range(count):
        end = at + size + (1 if i < longer else 0)
        yield rows[at:end]
        at = end


def write_batches(folder, rows, count):
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(parts(rows, count), 1):
        with open(folder / f"b{number}.csv", "w", newline="", encoding="ascii") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows(batch)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    packed = pathlib.Path(sys.argv[1]).read_bytes()
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parent)
    digest = hashlib.sha256(packed).hexdigest()
    if digest != SOURCE_SHA256:
        sys.exit(f"{sys.argv[1]}: SHA-256 is {digest}, expected {SOURCE_SHA256}: another version of the data set?")
    text = gzip.decompress(packed).decode("ascii")
    rows = [[int(float(value)) for value in line.split(",")] for line in text.splitlines()]
    random.Random(SEED).shuffle(rows)
    write_batches(folder / "train", rows[TEST_ROWS:], TRAIN_BATCHES)
    write_batches(folder / "test", rows[:TEST_ROWS], TEST_BATCHES)
    print(f"{len(rows)} rows: {len(rows) - TEST_ROWS} to train on in {TRAIN_BATCHES} batches, {TEST_ROWS} held back in {TEST_BATCHES}")


if __name__ == "__main__":
    main()
