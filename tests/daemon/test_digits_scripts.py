"""The scripts of pipelines/digits, run by hand as a stage would run them: folders in the environment, nothing else."""
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import zlib

import pytest

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "pipelines" / "digits"
CODE = DIGITS / "code"


def run_stage(script, out, inputs, seed="7", fails=False):
    out.mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "PL_OUT": str(out), "PL_DEVICE": "cpu", "PL_SEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    env.update({"PL_INPUT_" + name.upper(): str(path) for name, path in inputs.items()})
    done = subprocess.run([sys.executable, script], cwd=CODE, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done


def run_pipeline(top, batches, seed="7"):
    for number in batches:
        run_stage("prepare.py", top / "prepare" / f"b{number}", {"digits": DIGITS / "data" / "train" / f"b{number}.csv"}, seed)
    run_stage("train.py", top / "train", {"prepare": top / "prepare"}, seed)
    for number in (1, 2):
        test = DIGITS / "data" / "test" / f"b{number}.csv"
        run_stage("infer.py", top / "infer" / f"b{number}", {"test": test, "model": top / "train"}, seed)
    run_stage("report.py", top / "report", {"infer": top / "infer"}, seed)
    return top


def digests(top):
    return {str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(top.rglob("*")) if path.is_file()}


def read_png(path):
    """-> (width, height) after checking signature, chunk sums and the length of the pixels."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)
    assert chunks[b"IEND"] == b""
    return width, height


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_pipeline(tmp_path_factory.mktemp("whole"), range(1, 9))


def test_the_data_is_1797_images_cut_into_ten_batches():
    rows = {path.relative_to(DIGITS / "data").as_posix(): len(path.read_text().splitlines()) - 1 for path in DIGITS.glob("data/*/*.csv")}
    assert len(rows) == 10 and sum(rows.values()) == 1797
    assert rows["test/b1.csv"] + rows["test/b2.csv"] == 360


def test_held_back_images_are_recognised(whole):
    report = json.loads((whole / "report" / "report.json").read_text())
    assert report["images"] == 360 and report["right"] + report["wrong"] == 360
    assert report["accuracy"] >= 0.97


def test_metrics_have_a_line_an_epoch_with_the_known_keys(whole):
    lines = [json.loads(line) for line in (whole / "train" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(set(line) == {"step", "loss", "accuracy", "progress"} for line in lines)
    assert lines[-1]["progress"] == 1.0 and lines[-1]["loss"] < lines[0]["loss"]
    assert json.loads((whole / "train" / "metrics.json").read_text())["accuracy"] == lines[-1]["accuracy"]


def test_pictures_are_valid_png(whole):
    for name in ("prepare/b1/sheet.png", "train/learning_curve.png", "report/confusion.png"):
        width, height = read_png(whole / name)
        assert width > 100 and height > 100


def test_predictions_name_their_batch_and_agree_with_the_report(whole):
    lines = (whole / "infer" / "b2" / "predictions.csv").read_text().splitlines()
    assert lines[0] == "path,row,label,predicted,confidence"
    assert all(line.startswith("/test/b2.csv,") for line in lines[1:])
    every = [line.split(",") for n in (1, 2) for line in (whole / "infer" / f"b{n}" / "predictions.csv").read_text().splitlines()[1:]]
    right = sum(row[2] == row[3] for row in every)
    assert right == json.loads((whole / "report" / "report.json").read_text())["right"]


def test_same_inputs_and_seed_give_the_same_bytes(whole, tmp_path):
    assert digests(run_pipeline(tmp_path / "again", range(1, 9))) == digests(whole)


def test_one_more_batch_leaves_the_prepared_ones_untouched(whole, tmp_path):
    fewer = digests(run_pipeline(tmp_path / "fewer", range(1, 8)))
    every = digests(whole)
    prepared = {name for name in fewer if name.startswith("prepare/")}
    assert len(prepared) == 14 and all(fewer[name] == every[name] for name in prepared)
    assert fewer["train/model.npz"] != every["train/model.npz"]


def test_another_seed_gives_another_model_as_good(tmp_path):
    report = run_pipeline(tmp_path / "seed", range(1, 9), seed="123456789012345678") / "report" / "report.json"
    assert json.loads(report.read_text())["accuracy"] >= 0.97


@pytest.mark.parametrize("row, message", [
    ("1,2,3", "3 values, expected 64 pixels and a label"),
    (",".join(["99"] + ["0"] * 64), "pixels are 0..16, labels 0..9"),
    (",".join(["x"] + ["0"] * 64), "invalid literal"),
])
def test_a_bad_row_is_refused_with_its_line(tmp_path, row, message):
    batch = tmp_path / "bad.csv"
    batch.write_text("header\n" + ",".join(["0"] * 65) + "\n" + row + "\n")
    done = run_stage("prepare.py", tmp_path / "out", {"digits": batch}, fails=True)
    assert "bad.csv:3:" in done.stderr and message in done.stderr


def test_training_without_a_batch_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    done = run_stage("train.py", tmp_path / "out", {"prepare": tmp_path / "empty"}, fails=True)
    assert "no prepared batch" in done.stderr
