"""Writes scores.csv as a table, with a package that requirements.txt asks for."""
import csv
import os

import tabulate

with open(os.path.join(os.environ["PL_INPUT_SCORES"], "scores.csv"), encoding="utf-8") as f:
    rows = list(csv.DictReader(f))
with open(os.path.join(os.environ["PL_OUT"], "scores.md"), "w", encoding="utf-8") as f:
    f.write(tabulate.tabulate(rows, headers="keys", tablefmt="github") + "\n")
print(f"{len(rows)} rows, with tabulate {tabulate.__version__}")
