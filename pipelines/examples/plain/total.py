"""Adds up the counts of all texts."""

import collections
import glob
import json
import os

total = collections.Counter()
for path in glob.glob(os.path.join(os.environ["PL_INPUT_COUNT"], "*", "words.json")):
    with open(path, encoding="utf-8") as words:
        total.update(json.load(words))
with open(os.path.join(os.environ["PL_OUT"], "total.json"), "w", encoding="utf-8") as out:
    json.dump(total, out, sort_keys=True)
