"""Picks the fit with the least error."""

import glob
import json
import os

fits = []
for path in glob.glob(os.path.join(os.environ["PL_INPUT_FIT"], "*", "metrics.json")):
    with open(path, encoding="utf-8") as f:
        fits.append(json.load(f))
with open(os.path.join(os.environ["PL_OUT"], "best.json"), "w", encoding="utf-8") as out:
    json.dump(min(fits, key=lambda fit: fit["error"]), out)
