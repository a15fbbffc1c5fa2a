"""Trains an image classifier on device xla (or, to compare, on PyTorch's CPU device) and shows how it goes.

    python examples/train_vision.py                                   # a Vision Transformer on scikit-learn's handwritten digits
    python examples/train_vision.py --model resnet18                  # the same digits for any of torchvision's classifiers
    python examples/train_vision.py --data fake --model resnet18 --image-size 64
    python examples/train_vision.py --data FOLDER --model resnet50 --amp

Writes a checkpoint after each epoch, the loss curve and sample predictions to --out.
"""
# quick: --epochs 2

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import sys
import time
from typing import Any

import torch
import vision_data
import vision_models
import vision_pictures
import vision_progress


class Stopped(Exception):
    """The run can't go on; the message says why and what to do."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--data", default="digits", help="digits, fake, or a folder with one folder of pictures a class")
    add("--model", default="digits_vit", help="digits_vit or any classifier of torchvision.models")
    add("--device", default="xla", choices=("xla", "cpu"), help="cpu: PyTorch's own eager device")
    add("--epochs", type=int, default=50)
    add("--batch", "--batch-size", type=int, default=64)
    add("--lr", type=float, default=2e-3, help="highest learning rate")
    add("--warmup", type=float, default=0.1, help="part of all steps in which the rate rises to --lr; then it falls along a cosine")
    add("--weight-decay", type=float, default=0.05)
    add("--smoothing", type=float, default=0.05, help="label smoothing")
    add("--clip", type=float, default=1.0, help="largest norm of the gradient; 0: any")
    add("--amp", action="store_true", help="compute products in bfloat16")
    add("--seed", type=int, default=0)
    add("--out", default="out/vision", help="where checkpoint and pictures go")
    add("--resume", nargs="?", const="", default=None, metavar="CHECKPOINT", help="go on from a checkpoint, by default the one in --out")
    add("--image-size", type=int, default=224, help="side of the images, for fake data and folders")
    add("--classes", type=int, default=10, help="classes of fake data")
    add("--batches", type=int, default=20, help="batches an epoch of fake data")
    add("--workers", type=int, default=0, help="processes that read pictures")
    add("--read-every", type=int, default=10, help="steps between reads of the loss; reading waits for the device")
    add("--quiet", action="store_true")
    chosen = parser.parse_args(argv)
    for name in ("epochs", "batch", "read_every", "batches", "image_size", "classes"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1; it is {getattr(chosen, name)}")
    return chosen


@dataclasses.dataclass
class History:
    """What is known of the run so far."""

    losses: list[float] = dataclasses.field(default_factory=list)
    """Loss of each step."""
    accuracies: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    """(step, test accuracy in percent) after each epoch."""


class Training:
    """Model, optimizer and schedule on a device, and the steps they take."""

    def __init__(self, options: argparse.Namespace, data: vision_data.Data) -> None:
        self.options, self.data = options, data
        self.steps = options.epochs * len(data.train)
        self.epoch = 0
        self.history = History()
        self.device = torch.device("cpu")
        self.xla: Any = None
        if options.device == "xla":
            import torch_xla

            self.xla, self.device = torch_xla, torch_xla.device()
        torch.manual_seed(options.seed)
        self.model = vision_models.make(options.model, data.shape, len(data.classes)).to(self.device)
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=options.lr)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.show = vision_progress.Show(vision_progress.Device(options.device), self.steps, options.quiet)
        self._unread: list[torch.Tensor] = []
        self.images_per_second = 0.0

    def _rate(self, step: int) -> float:
        """The learning rate at `step`, as a part of --lr."""
        warmup = max(int(self.options.warmup * self.steps), 1)
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min((step - warmup) / max(self.steps - warmup, 1), 1.0)))

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16) if self.options.amp else contextlib.nullcontext()

    def _end_step(self) -> None:
        if self.xla:
            with self.show.waiting():
                self.xla.sync()

    def train_epoch(self) -> None:
        """One pass over the training data."""
        self.model.train()
        started, seen = time.monotonic(), 0
        for images, labels in self.data.train:
            self._step(images.to(self.device), labels.to(self.device))
            seen += len(labels)
            if len(self._unread) >= self.options.read_every:
                self._read(seen / (time.monotonic() - started))
        self._read(seen / (time.monotonic() - started))

    def _step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Forward, backward and update: on the XLA device one program."""
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = torch.nn.functional.cross_entropy(self.model(images), labels, label_smoothing=self.options.smoothing)
        loss.backward()
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        self.schedule.step()
        self._unread.append(loss.detach())
        self._end_step()

    def _read(self, rate: float) -> None:
        """Reads the losses of the steps since the last read, and stops the run when one is not finite."""
        for loss in self._unread:
            value = loss.item()
            if not math.isfinite(value):
                raise Stopped(self._explain_loss(value))
            self.history.losses.append(value)
        self._unread.clear()
        self.images_per_second = rate
        last = self.history.losses[-1] if self.history.losses else None
        self.show.progress(len(self.history.losses), f"epoch {self.epoch + 1}/{self.options.epochs}", last, rate)

    def _explain_loss(self, value: float) -> str:
        step = len(self.history.losses) + 1
        before = f"it was {self.history.losses[-1]:.4g} a step before" if self.history.losses else "it was the first step"
        rate = self.options.lr * self._rate(step - 1)
        bad = [name for name, parameter in self.model.named_parameters() if not torch.isfinite(parameter).all().item()]
        parts = [f"the loss became {value} at step {step} of {self.steps} (epoch {self.epoch + 1}, learning rate {rate:.3g}); {before}."]
        parts.append(f"{len(bad)} of the model's parameters are not finite, e.g. {bad[0]}." if bad else "All parameters are still finite.")
        parts.append(f"Try a smaller --lr{', a --clip' if not self.options.clip else ''}{' or no --amp' if self.options.amp else ''}.")
        if self.checkpoint().exists():
            parts.append(f"The checkpoint in {self.checkpoint()} is from before; go on from it with --resume.")
        return " ".join(parts)

    def evaluate(self) -> tuple[float, torch.Tensor]:
        """The test accuracy in percent, and what the model takes each test image for."""
        self.model.eval()
        guesses, labels = [], []
        with torch.no_grad():
            for images, truth in self.data.test:
                with self._autocast():
                    guesses.append(self.model(images.to(self.device)).argmax(1))
                labels.append(truth)
                self._end_step()
        truth = torch.cat(labels)
        guessed = torch.cat([guess.cpu() for guess in guesses])[truth != vision_data.PADDING]
        truth = truth[truth != vision_data.PADDING]
        return 100 * (guessed == truth).double().mean().item(), guessed

    def checkpoint(self) -> pathlib.Path:
        """Where this run's checkpoint lies."""
        return pathlib.Path(self.options.out) / "checkpoint.pt"

    def save(self) -> None:
        """Writes the checkpoint; an interrupted write leaves the old one."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "epoch": self.epoch,
            "history": dataclasses.asdict(self.history),
            "random": torch.get_rng_state(),
            "options": {name: getattr(self.options, name) for name in ("data", "model", "batch", "epochs")},
        }
        path = self.checkpoint()
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)

    def resume(self, path: pathlib.Path) -> None:
        """Goes back to where the checkpoint was written."""
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            self.epoch = state["epoch"]
            self.history = History(state["history"]["losses"], [tuple(point) for point in state["history"]["accuracies"]])
            torch.set_rng_state(state["random"])
        except FileNotFoundError as error:
            raise Stopped(f"there is no checkpoint {path} to resume from; leave --resume out to start anew.") from error
        except Exception as error:  # noqa: BLE001  a broken file can raise nearly anything
            text = f"checkpoint {path} can't be used: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}."
            raise Stopped(f"{text} It may be damaged or of another --model; leave --resume out to start anew.") from error

    def run(self) -> None:
        """All epochs that are left."""
        show = self.show
        with show.bar:
            while self.epoch < self.options.epochs:
                self.train_epoch()
                accuracy, _ = self.evaluate()
                self.epoch += 1
                self.history.accuracies.append((len(self.history.losses), accuracy))
                mean = sum(self.history.losses[-len(self.data.train) :]) / len(self.data.train)
                text = f"epoch {self.epoch:>3}  loss {mean:.4f}  test accuracy {accuracy:.2f} %  {self.images_per_second:,.0f} images/s"
                show.line(text)
                self.save()
            show.progress(len(self.history.losses), "done", self.history.losses[-1] if self.history.losses else None, self.images_per_second)

    def finish(self, seconds: float) -> float:
        """Draws the pictures, prints the summary, gives the test accuracy."""
        out = pathlib.Path(self.options.out)
        out.mkdir(parents=True, exist_ok=True)
        accuracy, guesses = self.evaluate()
        images, labels = (torch.cat(parts) for parts in zip(*self.data.test, strict=True))
        kept = labels != vision_data.PADDING
        title = f"{self.options.model} on {self.options.data}, device {self.device.type}"
        vision_pictures.loss_curve(self.history.losses, self.history.accuracies, out / "loss.png", title)
        vision_pictures.predictions(images[kept], labels[kept], guesses, self.data.classes, out / "predictions.png")
        rows = [
            ("model", f"{self.options.model}, {sum(p.numel() for p in self.model.parameters()):,} parameters, device {self.device}"),
            ("test accuracy", f"{accuracy:.2f} % of {len(guesses)} images"),
            ("time", f"{seconds:.1f} s for {len(self.history.losses):,} steps"),
            ("pictures", f"{out / 'loss.png'}, {out / 'predictions.png'}"),
            ("checkpoint", str(self.checkpoint())),
        ]
        vision_progress.summary(self.show, rows)
        return accuracy


def main(argv: list[str] | None = None) -> int:
    """Runs; 0 when all went well, 2 for unusable input, 3 when the loss is not finite, 130 after Ctrl-C."""
    options = arguments(argv)
    started = time.monotonic()
    sizes = {"size": options.image_size, "classes": options.classes, "batches": options.batches, "workers": options.workers}
    try:
        data = vision_data.load(options.data, options.model, options.batch, options.seed, **sizes)
        training = Training(options, data)
        if options.resume is not None:
            training.resume(pathlib.Path(options.resume) if options.resume else training.checkpoint())
    except (vision_data.DataError, vision_models.ModelError, Stopped) as error:
        vision_progress.complain(str(error))
        return 2
    try:
        training.run()
        training.finish(time.monotonic() - started)
    except Stopped as error:
        vision_progress.complain(str(error))
        return 3
    except vision_data.DataError as error:
        vision_progress.complain(str(error))
        return 2
    except KeyboardInterrupt:
        hint = f"go on with --resume --out {options.out}" if training.checkpoint().exists() else "no epoch was finished, so nothing was saved"
        vision_progress.complain(f"interrupted in epoch {training.epoch + 1}; {hint}.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
