"""The data: CSV batches of 8 x 8 images, and arrays stored so that equal arrays are equal bytes."""
import io
import zipfile

import numpy as np

SIDE = 8
PIXELS = SIDE * SIDE
CLASSES = 10
INK = 16  # the darkest pixel


def read_batch(path):
    """-> images uint8 (n, 64) of 0..16, labels uint8 (n,). A row that is not 64 pixels and a digit is refused with its line."""
    images, labels = [], []
    with open(path, encoding="ascii") as file:
        next(file, None)  # the header
        for line_number, line in enumerate(file, 2):
            try:
                values = [int(value) for value in line.split(",")]
            except ValueError as error:
                raise SystemExit(f"{path}:{line_number}: {error}") from None
            if len(values) != PIXELS + 1:
                raise SystemExit(f"{path}:{line_number}: {len(values)} values, expected {PIXELS} pixels and a label")
            if not all(0 <= value <= INK for value in values[:PIXELS]) or not 0 <= values[PIXELS] < CLASSES:
                raise SystemExit(f"{path}:{line_number}: pixels are 0..{INK}, labels 0..{CLASSES - 1}")
            images.append(values[:PIXELS])
            labels.append(values[PIXELS])
    return np.array(images, np.uint8).reshape(-1, PIXELS), np.array(labels, np.uint8)


def normalised(images):
    """uint8 0..16 -> float32 0..1."""
    return images.astype(np.float32) / INK


def save_arrays(path, **arrays):
    """Like numpy.savez_compressed, but without the time of day: same arrays, same bytes, so nothing downstream runs again."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(arrays[name]), allow_pickle=False)
            archive.writestr(member, content.getvalue())


def load_arrays(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
