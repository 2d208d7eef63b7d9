"""One batch of images -> digits.npz (normalised arrays) and sheet.png (all images on one sheet, to look at)."""
import numpy as np

import digits
import folders
import picture

COLUMNS = 20
ZOOM = 4
CELL = digits.SIDE * ZOOM + 4
CAPTION = 24


def contact_sheet(title, images):
    count = len(images)
    rows = max(1, -(-count // COLUMNS))
    canvas = picture.Canvas(COLUMNS * CELL + 4, CAPTION + rows * CELL + 4)
    canvas.text(6, 5, f"{title}: {count} images", scale=2)
    for i, image in enumerate(images):
        paper = 255 - np.rint(image.reshape(digits.SIDE, digits.SIDE) * 255).astype(np.uint8)
        canvas.image(4 + i % COLUMNS * CELL, CAPTION + i // COLUMNS * CELL, np.kron(paper, np.ones((ZOOM, ZOOM), np.uint8)))
    return canvas


def main():
    source = folders.of_input("digits")
    out = folders.of_output()
    raw, labels = digits.read_batch(source)
    images = digits.normalised(raw)
    digits.save_arrays(out / "digits.npz", images=images, labels=labels)
    contact_sheet(source.stem, images).save(out / "sheet.png")
    print(f"{source.name}: {len(labels)} images")


if __name__ == "__main__":
    main()
