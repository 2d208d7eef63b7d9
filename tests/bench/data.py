"""What is measured on: the same bytes on every machine, drawn from a seed."""
import random

FILE_BYTES = 4096
FOLDER_FILES = 100
BLOCK_BYTES = 65536
MIB = 1 << 20

WORDS = [word.encode() for word in (
    "the daemon keeps versioned datasets in object storage and runs every stage of a pipeline where its data is so that only the "
    "work that a change touches is done again and every result names the commit of its code while nothing waits without a reason "
    "id,label,width,height,score 0.125 0.5 17 256 1024 true false null error warning trained evaluated prepared").split()]


def text(draw, size):
    """Words and line ends, about as compressible as prose and tables are."""
    words = b" ".join(draw.choices(WORDS, k=size // 5))
    lines = bytearray(words[:size].ljust(size, b"."))
    lines[79::80] = b"\n" * len(lines[79::80])
    return bytes(lines)


def content(draw, index):
    """Of one small file: every other one is random, the rest is text."""
    return draw.randbytes(FILE_BYTES) if index % 2 else text(draw, FILE_BYTES)


def path_of(folder, index):
    return folder / f"{index // FOLDER_FILES:04d}" / f"{index % FOLDER_FILES:02d}.dat"


def make_files(folder, count):
    """`count` files of 4 KiB, 100 a folder."""
    draw = random.Random("files")
    for index in range(count):
        path = path_of(folder, index)
        if index % FOLDER_FILES == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(content(draw, index))


def change_files(folder, count, round_):
    """One file in a hundred, anywhere, gets other content -> how many."""
    draw = random.Random(f"change {round_}")
    chosen = draw.sample(range(count), max(1, count // 100))
    for index in sorted(chosen):
        path_of(folder, index).write_bytes(content(draw, index))
    return len(chosen)


def make_large(path, size):
    draw = random.Random("large")
    with open(path, "wb") as file:
        for at in range(0, size, MIB):
            file.write(draw.randbytes(min(MIB, size - at)))


def insert_in_middle(path, size):
    """1 MiB of new bytes; the file is written anew."""
    new = path.with_suffix(".new")
    with open(path, "rb") as old, open(new, "wb") as file:
        left = size // 2
        while left:
            part = old.read(min(MIB, left))
            file.write(part)
            left -= len(part)
        file.write(random.Random("insert").randbytes(MIB))
        while part := old.read(MIB):
            file.write(part)
    new.rename(path)


def overwrite_blocks(path, size, blocks):
    """`blocks` times 64 KiB of new bytes, anywhere."""
    draw = random.Random("overwrite")
    with open(path, "r+b") as file:
        for _ in range(blocks):
            file.seek(draw.randrange(size - BLOCK_BYTES))
            file.write(draw.randbytes(BLOCK_BYTES))
