"""Pictures of a training run: the loss curve, and predictions for some test images."""

import pathlib
from typing import Any

import torch


def _figure(width: float, height: float, **kwargs: Any) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained", **kwargs)


def loss_curve(losses: list[float], accuracies: list[tuple[int, float]], path: pathlib.Path, title: str) -> None:
    """Draws each step's loss, its running mean, and the test accuracy after each epoch (step, percent) into the PNG `path`."""
    figure, axes = _figure(8, 4.5)
    axes.plot(range(1, len(losses) + 1), losses, color="#9db8d2", linewidth=0.7, label="loss of each step")
    window = max(len(losses) // 50, 1)
    if len(losses) > window:
        kernel = torch.ones(1, 1, window) / window
        smooth = torch.nn.functional.conv1d(torch.tensor(losses)[None, None], kernel)[0, 0]
        axes.plot(range(window, len(losses) + 1), smooth.tolist(), color="#1f4e79", label=f"mean of {window} steps")
    axes.set(xlabel="step", ylabel="training loss", title=title, ylim=(0, None))
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    if accuracies:
        right = axes.twinx()
        right.plot(*zip(*accuracies, strict=True), color="#c55a11", marker=".", label="test accuracy")
        right.set(ylabel="test accuracy, %", ylim=(0, 100))
        more = right.get_legend_handles_labels()
        handles, labels = handles + more[0], labels + more[1]
    axes.legend(handles, labels, loc="center right")
    figure.savefig(path, dpi=120)


def predictions(images: torch.Tensor, labels: torch.Tensor, guesses: torch.Tensor, classes: list[str], path: pathlib.Path) -> None:
    """Draws up to 32 CPU images with what the model takes them for into the PNG `path`; wrong ones in red with the right answer. Wrong ones first."""
    order = torch.argsort((guesses == labels).to(torch.int8), stable=True)
    wrong = int((guesses != labels).sum())
    rows = torch.cat([order[: min(wrong, 8)], order[wrong:]])[:32].tolist()
    figure, grid = _figure(10, 6, nrows=4, ncols=8, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, row in zip(grid.flat, rows, strict=False):
        image = images[row].float()
        image = (image - image.min()) / (image.max() - image.min()).clamp(min=1e-6)
        axes.imshow(image.permute(1, 2, 0) if image.shape[0] == 3 else image[0], cmap="gray_r")
        right = int(guesses[row]) == int(labels[row])
        text = classes[int(guesses[row])] if right else f"{classes[int(guesses[row])]} (is {classes[int(labels[row])]})"
        axes.set_title(text, color="#2e7d32" if right else "#c62828", fontsize=11)
    figure.suptitle(f"{len(labels) - wrong} of {len(labels)} test images right")
    figure.savefig(path, dpi=110)
