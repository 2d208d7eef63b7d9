"""All predictions -> report.json (accuracy), confusion.csv and confusion.png."""
import csv
import json

import numpy as np

import digits
import folders
import picture

CELL = 44
LEFT, TOP = 70, 84


def count_pairs(folder):
    """-> int (10, 10): how many images of each label (row) were taken for each digit (column)."""
    table = np.zeros((digits.CLASSES, digits.CLASSES), int)
    for path in folders.files_below(folder, "predictions.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                table[int(row["label"]), int(row["predicted"])] += 1
    return table


def confusion_picture(table, title):
    canvas = picture.Canvas(LEFT + digits.CLASSES * CELL + 20, TOP + digits.CLASSES * CELL + 20)
    canvas.text(10, 10, title, scale=2)
    canvas.text(LEFT, TOP - 46, "predicted", scale=2)
    canvas.text(6, TOP - 22, "label", scale=2)
    for i in range(digits.CLASSES):
        middle = i * CELL + CELL // 2
        canvas.text(LEFT + middle - 6, TOP - 22, str(i), scale=2)
        canvas.text(LEFT - 30, TOP + middle - 7, str(i), scale=2)
    for label, row in enumerate(table):
        for guess, count in enumerate(row):
            draw_cell(canvas, LEFT + guess * CELL, TOP + label * CELL, count, count / max(1, row.sum()), label == guess)
    return canvas


def draw_cell(canvas, x, y, count, share, right):
    full = picture.BLUE if right else picture.ORANGE
    strength = 0.0 if count == 0 else 0.25 + 0.75 * share
    colour = tuple(round(255 + (part - 255) * strength) for part in full)
    canvas.rectangle(x + 1, y + 1, CELL - 2, CELL - 2, colour if count else (244, 244, 245))
    if count:
        text = str(count)
        ink = picture.WHITE if strength > 0.6 else picture.BLACK
        canvas.text(x + (CELL - picture.text_width(text, 2)) // 2, y + CELL // 2 - 7, text, ink, scale=2)


def main():
    out = folders.of_output()
    table = count_pairs(folders.of_input("infer"))
    images, right = int(table.sum()), int(np.trace(table))
    if images == 0:
        raise SystemExit("no predictions to report on")
    report = {"accuracy": round(right / images, 4), "images": images, "right": right, "wrong": images - right,
              "per_digit": {str(i): round(table[i, i] / max(1, int(table[i].sum())), 4) for i in range(digits.CLASSES)}}
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="ascii")
    with open(out / "confusion.csv", "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label"] + [f"predicted_{i}" for i in range(digits.CLASSES)])
        writer.writerows([[label, *row] for label, row in enumerate(table.tolist())])
    confusion_picture(table, f"{right} of {images} right").save(out / "confusion.png")
    print(f"accuracy {report['accuracy']:.4f}: {right} of {images} right")


if __name__ == "__main__":
    main()
