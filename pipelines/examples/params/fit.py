"""One datum: fits a polynomial of one degree to the points and measures its error on every third point, which it did not see."""

import csv
import json
import os
import sys


def solve(a, b):
    """Solves a·x = b by elimination with row exchange."""
    n = len(b)
    rows = [[*row, value] for row, value in zip(a, b)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][k] * x[k] for k in range(i + 1, n))) / rows[i][i]
    return x


degree = int(sys.argv[1])
with open(os.path.join(os.environ["PL_INPUT_POINTS"], "points.csv"), encoding="utf-8") as f:
    points = [(float(row["x"]), float(row["y"])) for row in csv.DictReader(f)]
seen = [point for i, point in enumerate(points) if i % 3]
held_out = points[::3]
powers = range(degree + 1)
weights = solve([[sum(x ** (i + k) for x, _ in seen) for k in powers] for i in powers], [sum(y * x ** i for x, y in seen) for i in powers])
error = sum((y - sum(w * x ** i for i, w in enumerate(weights))) ** 2 for x, y in held_out) / len(held_out)
with open(os.path.join(os.environ["PL_OUT"], "metrics.json"), "w", encoding="utf-8") as out:
    json.dump({"degree": degree, "error": round(error, 6), "weights": [round(w, 6) for w in weights]}, out)
