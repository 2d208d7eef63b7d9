"""One held-back batch and the model -> predictions.csv: path,row,label,predicted,confidence."""
import csv
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import digits
import folders
import network


def main():
    batch = folders.of_input("test")
    weights = digits.load_arrays(folders.of_input("model") / "model.npz")
    raw, labels = digits.read_batch(batch)
    shares = network.probabilities(weights, digits.normalised(raw))
    predicted = shares.argmax(axis=1)
    name = f"/{batch.parent.name}/{batch.name}"
    with open(folders.of_output() / "predictions.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["path", "row", "label", "predicted", "confidence"])
        for row, (label, guess) in enumerate(zip(labels, predicted)):
            writer.writerow([name, row, label, guess, f"{shares[row, guess]:.4f}"])
    print(f"{name}: {int((predicted == labels).sum())} of {len(labels)} right")


if __name__ == "__main__":
    main()
