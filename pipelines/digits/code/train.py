"""All prepared batches -> model.npz, metrics.json, metrics.jsonl (a line an epoch, followed live) and learning_curve.png."""
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the matrices are small: more threads cost more than they bring
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same sums in the same order on a GPU

import numpy as np

import digits
import folders
import network
import picture

HIDDEN = 192
EPOCHS = 30
MINI_BATCH = 32
RATE = 3e-3
HELD_BACK = 10  # every tenth image only measures the training; the test batches are never seen here


def read_batches(folder):
    files = folders.files_below(folder, "*.npz")
    if not files:
        raise SystemExit(f"no prepared batch below {folder}")
    batches = [digits.load_arrays(file) for file in files]
    return np.concatenate([b["images"] for b in batches]), np.concatenate([b["labels"] for b in batches]), len(files)


def shifted(rng, images):
    """Each image moved by up to half a pixel in both directions, as if it had been centred a little differently."""
    grid = np.pad(images.reshape(-1, digits.SIDE, digits.SIDE), ((0, 0), (1, 1), (1, 1)))
    for axis in (1, 2):
        by = rng.uniform(-0.5, 0.5, (len(images), 1, 1)).astype(np.float32)
        before, after = np.roll(grid, 1, axis), np.roll(grid, -1, axis)
        grid = grid * (1 - abs(by)) + before * np.maximum(by, 0) + after * np.maximum(-by, 0)
    return np.ascontiguousarray(grid[:, 1:-1, 1:-1].reshape(-1, digits.PIXELS))


def accuracy(weights, images, labels):
    return float((network.probabilities(weights, images).argmax(axis=1) == labels).mean()) if len(labels) else 0.0


def train(net, rng, images, labels, held_images, held_labels, report):
    """EPOCHS passes with a rate that falls along a half cosine; -> one dict an epoch, given to `report` as it ends."""
    history = []
    for epoch in range(EPOCHS):
        order = rng.permutation(len(labels))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        moved = shifted(rng, images)
        losses = [net.step(moved[part], labels[part], rate) for part in np.array_split(order, max(1, len(order) // MINI_BATCH))]
        history.append({"step": epoch + 1, "loss": round(float(np.mean(losses)), 5),
                        "accuracy": round(accuracy(net.weights(), held_images, held_labels), 5),
                        "progress": round((epoch + 1) / EPOCHS, 4)})
        report(history[-1])
    return history


def learning_curve(history):
    width, height, left, top = 560, 280, 56, 40
    canvas = picture.Canvas(width + left + 60, height + top + 44)
    for tenth in range(0, 11, 2):
        y = top + height - height * tenth // 10
        canvas.rectangle(left, y, width, 1, picture.GREY)
        canvas.text(10, y - 3, f"{tenth / 10:.1f}")
    series = [("held-back accuracy", "accuracy", 1.0, picture.BLUE), ("loss / its start", "loss", history[0]["loss"], picture.ORANGE)]
    for number, (name, key, full, colour) in enumerate(series):
        at = [(left + width * i / max(1, len(history) - 1), top + height - height * min(1.0, row[key] / max(full, 1e-9)))
              for i, row in enumerate(history)]
        for (x0, y0), (x1, y1) in zip(at, at[1:]):
            canvas.line(x0, y0, x1, y1, colour)
        canvas.rectangle(left + number * 260, 16, 18, 3, colour)
        canvas.text(left + 24 + number * 260, 10, name, scale=2)
    canvas.text(left + width // 2 - 30, top + height + 20, f"epoch (1..{len(history)})", scale=2)
    return canvas


def main():
    out = folders.of_output()
    images, labels, batches = read_batches(folders.of_input("prepare"))
    rng = np.random.default_rng(int(os.environ.get("PL_SEED", "0")))
    held = np.arange(len(labels)) % HELD_BACK == HELD_BACK - 1
    net = network.best_network(network.first_weights(rng, digits.PIXELS, HIDDEN, digits.CLASSES), os.environ.get("PL_DEVICE") == "gpu")
    print(f"{len(labels)} images of {batches} batches; {net.framework} on {net.device}", flush=True)

    with open(out / "metrics.jsonl", "w", encoding="ascii") as lines:
        def report(row):
            print(json.dumps(row), file=lines, flush=True)
            if row["step"] % 5 == 0 or row["step"] == 1:
                print(f"epoch {row['step']:2}  loss {row['loss']:.4f}  held-back accuracy {row['accuracy']:.4f}", flush=True)

        history = train(net, rng, images[~held], labels[~held], images[held], labels[held], report)

    digits.save_arrays(out / "model.npz", **net.weights())
    summary = {"accuracy": history[-1]["accuracy"], "loss": history[-1]["loss"], "epochs": EPOCHS, "images": len(labels),
               "batches": batches, "framework": net.framework, "device": net.device}
    (out / "metrics.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="ascii")
    learning_curve(history).save(out / "learning_curve.png")


if __name__ == "__main__":
    main()
