"""One datum: counts the words of one text."""

import collections
import json
import os

with open(os.environ["PL_INPUT_TEXTS"], encoding="utf-8") as text:
    words = collections.Counter(text.read().lower().split())
with open(os.path.join(os.environ["PL_OUT"], "words.json"), "w", encoding="utf-8") as out:
    json.dump(words, out, sort_keys=True)
print(len(words), "different words")
