"""What the checks have in common: the files they look at, and how they report."""
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {".git", "build", "__pycache__", "node_modules", ".pytest_cache", "corpus", "data", "dist"}


def files(top, folders, suffixes):
    """The files below `folders` of `top` whose names end with one of `suffixes`, in order; build folders and data are left out."""
    found = []
    for folder in folders:
        for path in (top / folder).rglob("*"):
            if path.is_file() and path.name.endswith(suffixes) and not SKIPPED & set(path.relative_to(top).parts):
                found.append(path)
    return sorted(found)


def report(name, complaints, looked_at):
    """Prints each complaint and ends the program: 0 when there are none and something was looked at."""
    for complaint in complaints:
        print(complaint)
    if not looked_at:
        print(f"{name}: found nothing to look at")
        sys.exit(1)
    print(f"{name}: {len(complaints)} complaints, {looked_at} looked at")
    sys.exit(1 if complaints else 0)


def top_argument():
    """The checkout: the first argument, or the one that this file lies in."""
    return pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else TOP
