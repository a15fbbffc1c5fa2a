"""The examples run as a user runs them, and say what is wrong when something is."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT


def _run(script: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*(entry for entry in sys.path if entry), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ROOT / "examples" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"}, check=False)


def _summary(output: str, name: str) -> str:
    found = re.search(rf"│ {name} *│ (.*?) *│", output)
    assert found, output
    return found.group(1)


def test_digits_trains_and_explains_itself(tmp_path: pathlib.Path) -> None:
    done = _run("train_vision.py", "--epochs", "4", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    accuracies = [float(number) for number in re.findall(r"test accuracy ([\d.]+) %", done.stdout)]
    assert accuracies[-1] > 60, done.stdout
    assert int(_summary(done.stdout, "fallbacks")) == 0
    compiles = int(_summary(done.stdout, "compiles").split(",")[0])
    assert 1 <= compiles <= 6, done.stdout
    assert "peak memory" in done.stdout and "launches" in done.stdout
    for name in ("loss.png", "predictions.png", "checkpoint.pt"):
        assert (tmp_path / name).stat().st_size > 1000
    longer = _run("train_vision.py", "--epochs", "5", "--out", str(tmp_path), "--resume")
    assert longer.returncode == 0, longer.stderr
    assert "epoch   5" in longer.stdout and "epoch   4" not in longer.stdout


def test_fake_data_with_a_torchvision_model_and_amp(tmp_path: pathlib.Path) -> None:
    options = ["--data", "fake", "--model", "resnet18", "--image-size", "32", "--batch", "8", "--batches", "6", "--epochs", "1", "--amp"]
    done = _run("train_vision.py", *options, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert int(_summary(done.stdout, "fallbacks")) == 0, done.stdout


def test_a_folder_of_pictures(tmp_path: pathlib.Path) -> None:
    from torchvision.utils import save_image

    for number in range(24):
        folder = tmp_path / "data" / ("red" if number % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        image = torch.rand(3, 40, 40) * 0.3
        image[0 if number % 2 else 2] += 0.6
        save_image(image, folder / f"{number}.png")
    options = ["--data", str(tmp_path / "data"), "--model", "squeezenet1_1", "--image-size", "32", "--batch", "4", "--epochs", "1"]
    done = _run("train_vision.py", *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "data" / "red" / "broken.png").write_bytes(b"not a picture")
    done = _run("train_vision.py", *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "broken.png can't be read" in done.stderr


BAD_INPUT = {
    "no folder": (["--data", "no/such/folder"], "there is no folder no/such/folder"),
    "empty folder": (["--data", "EMPTY", "--model", "resnet18"], "no images can be read"),
    "no model": (["--model", "resnet19"], "there is no model 'resnet19'"),
    "no checkpoint": (["--resume"], "there is no checkpoint"),
    "corrupt checkpoint": (["--resume", "CORRUPT"], "can't be used"),
    "batch": (["--batch", "5000"], "Use a smaller --batch"),
    "zero": (["--epochs", "0"], "at least 1"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_explained(tmp_path: pathlib.Path, name: str) -> None:
    options, message = BAD_INPUT[name]
    (tmp_path / "empty").mkdir()
    (tmp_path / "corrupt.pt").write_bytes(b"PK\x03\x04 broken")
    places = {"EMPTY": str(tmp_path / "empty"), "CORRUPT": str(tmp_path / "corrupt.pt")}
    done = _run("train_vision.py", *(places.get(option, option) for option in options), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_stops_with_an_explanation_when_the_loss_is_not_finite(tmp_path: pathlib.Path) -> None:
    done = _run("train_vision.py", "--lr", "1e30", "--clip", "0", "--epochs", "2", "--out", str(tmp_path))
    assert done.returncode == 3, done.stdout
    assert "the loss became nan" in done.stderr or "the loss became inf" in done.stderr
    assert "Try a smaller --lr" in done.stderr and "Traceback" not in done.stderr


def test_imagenet_style_script(tmp_path: pathlib.Path) -> None:
    options = ["--fake_data", "--model", "resnet18", "--image_size", "32", "--num_classes", "10", "--batch_size", "4", "--num_steps", "12", "--metrics_debug"]
    done = _run("imagenet_style.py", *options, "--checkpoint", str(tmp_path / "model.pt"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Training Device=xla:0") >= 2 and "Accuracy=" in done.stdout and "Metric: ExecuteTime" in done.stdout
    assert torch.load(tmp_path / "model.pt", weights_only=True)["fc.weight"].shape == (10, 512)
