"""Where a stage reads and writes: the folders that pipelined names in the environment."""
import os
import pathlib


def of_input(name):
    """The path of the input's match: a file, or a folder when the glob matches a folder or "/"."""
    return pathlib.Path(os.environ["PL_INPUT_" + name.upper()])


def of_output():
    return pathlib.Path(os.environ["PL_OUT"])


def files_below(path, pattern):
    """The files that match `pattern` at any depth below `path`, in byte order of their paths."""
    found = [file for file in path.rglob(pattern) if file.is_file()]
    return sorted(found, key=lambda file: os.fsencode(str(file)))
