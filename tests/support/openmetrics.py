"""A strict reader of OpenMetrics text 1.0, as far as pipelined writes it: anything else is an error that names the line."""

import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
SUFFIX = {"gauge": "", "counter": "_total", "info": "_info"}


class Family:
    def __init__(self, name):
        self.name, self.type, self.unit, self.help = name, None, "", None
        self.samples = {}  # (("label", "value"), …) → number


def unescape(text):
    return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), text)


def read_labels(text, line):
    """The labels between { and }, in order."""
    labels, at = [], 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, f"labels: {line!r}"
        labels.append((found.group(1), unescape(found.group(2))))
        at = found.end()
        if at < len(text):
            assert text[at] == "," and at + 1 < len(text), f"labels: {line!r}"
            at += 1
    names = [name for name, _ in labels]
    assert len(set(names)) == len(names), f"a label twice: {line!r}"
    return tuple(labels)


def read_sample(line):
    found = NAME.match(line)
    assert found, f"no name: {line!r}"
    name, rest, labels = found.group(0), line[found.end():], ()
    if rest.startswith("{"):
        end = re.match(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}', rest)
        assert end, f"labels do not end: {line!r}"
        labels, rest = read_labels(end.group(0)[1:-1], line), rest[end.end():]
    assert rest.startswith(" ") and NUMBER.fullmatch(rest[1:]), f"value: {line!r}"
    value = float(rest[1:])
    assert math.isfinite(value), line
    return name, labels, value


def read_header(families, line):
    """A line `# TYPE|UNIT|HELP name text`: of the newest family, or of a new one."""
    found = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)", line)
    assert found, f"no header: {line!r}"
    what, name, text = found.groups()
    newest = next(reversed(families), None)
    if name != newest:
        assert name not in families, f"{name} is scattered: {line!r}"
        families[name] = Family(name)
    family = families[name]
    assert not family.samples, f"a header behind samples: {line!r}"
    if what == "TYPE":
        assert family.type is None and text in SUFFIX, line
        family.type = text
    elif what == "UNIT":
        assert not family.unit and name.endswith("_" + text), f"a name ends in its unit: {line!r}"
        family.unit = text
    else:
        assert family.help is None, line
        assert not re.search(r'\\(?![n\\"])', text), f"escapes: {line!r}"
        family.help = text


def read(text):
    """→ {name of the family: Family}."""
    assert text.endswith("\n# EOF\n"), "the text ends with # EOF and nothing behind it"
    families = {}
    for line in text[:-len("# EOF\n")].splitlines():
        assert line and line == line.strip(), f"blanks: {line!r}"
        if line.startswith("#"):
            read_header(families, line)
            continue
        name, labels, value = read_sample(line)
        family = families[next(reversed(families))]
        assert name == family.name + SUFFIX[family.type], f"{name} is no sample of {family.name}: {line!r}"
        assert labels not in family.samples, f"twice: {line!r}"
        assert family.type != "counter" or value >= 0, line
        assert family.type != "info" or value == 1, line
        family.samples[labels] = value
    samples = [f.name + SUFFIX[f.type] for f in families.values()]
    assert len(set(samples)) == len(samples), "two families have samples of one name"
    for family in families.values():
        assert family.type and family.help, f"{family.name} has no type or no meaning"
        assert len({tuple(n for n, _ in labels) for labels in family.samples}) <= 1, f"{family.name}: labels differ"
    return families


def value(families, name, **labels):
    """The one sample of the family with these labels."""
    found = [v for key, v in families[name].samples.items() if dict(key) == labels]
    assert len(found) == 1, (name, labels, families[name].samples)
    return found[0]
