"""Image data for the training example: scikit-learn's digits, made-up images, or a folder of pictures, as loaders of equal batches."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import torch

PADDING = -1  # the label of rows that only fill up an evaluation batch


class DataError(Exception):
    """The data can't be used; the message says why and what to do."""


@dataclasses.dataclass
class Data:
    """What a training run needs to know of its data."""

    train: Any
    """Loader of (images, labels) batches, all of one size; random anew in each epoch."""
    test: Any
    """The same for evaluation; the last batch is filled up with rows labelled PADDING."""
    classes: list[str]
    shape: tuple[int, int, int]
    """Channels, height, width of an image."""


class TensorBatches:
    """Batches from tensors in memory. shift: move every second image, at random, by up to so many pixels in both directions."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, batch: int, *, train: bool, shift: int = 0, seed: int = 0) -> None:
        if train and len(images) < batch:
            raise DataError(f"a batch of {batch} needs as many training images; there are {len(images)}. Use a smaller --batch.")
        self.images, self.labels, self.batch, self.train, self.shift = images, labels, batch, train, shift
        self.random = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.images) // self.batch if self.train else -(-len(self.images) // self.batch)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(self.images), generator=self.random) if self.train else torch.arange(len(self.images))
        for start in range(0, len(self) * self.batch, self.batch):
            rows = order[start : start + self.batch]
            images, labels = self.images[rows], self.labels[rows]
            yield (self._moved(images), labels) if self.train else pad(images, labels, self.batch)

    def _moved(self, images: torch.Tensor) -> torch.Tensor:
        if not self.shift:
            return images
        count, channels, height, width = images.shape
        room = torch.nn.functional.pad(images, [self.shift] * 4)
        top, left = torch.randint(0, 2 * self.shift + 1, (2, count, 1), generator=self.random)
        rows = (top + torch.arange(height))[:, None, :, None]
        columns = (left + torch.arange(width))[:, None, None, :]
        moved = room[torch.arange(count)[:, None, None, None], torch.arange(channels)[None, :, None, None], rows, columns]
        stays = torch.rand(count, generator=self.random) < 0.5
        return torch.where(stays[:, None, None, None], images, moved)


def pad(images: torch.Tensor, labels: torch.Tensor, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Fills the rows up to `batch`, so that all batches have one shape and need one program."""
    missing = batch - len(images)
    if not missing:
        return images, labels
    return torch.cat([images, images[:1].expand(missing, *images.shape[1:])]), torch.cat([labels, torch.full((missing,), PADDING)])


class PaddedLoader:
    """A DataLoader for evaluation, its last batch filled up."""

    def __init__(self, loader: Any, batch: int) -> None:
        self.loader, self.batch = loader, batch

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for images, labels in self.loader:
            yield pad(images, labels, self.batch)


def digits(batch: int, seed: int, *, colour: bool) -> Data:
    """scikit-learn's 1,797 scans of handwritten digits, a fifth of them for evaluation. colour: as 3×32×32 for models made for photographs."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    scans = load_digits()
    rows = train_test_split(range(len(scans.target)), test_size=360, random_state=0, stratify=scans.target)
    images = torch.tensor(scans.images, dtype=torch.float32)[:, None] / 16
    mean, spread = images[rows[0]].mean(), images[rows[0]].std()
    images, background = (images - mean) / spread, float(-mean / spread)
    labels = torch.tensor(scans.target)
    if colour:
        images = torch.nn.functional.interpolate(images, size=(32, 32), mode="bilinear").repeat(1, 3, 1, 1)
    # Moving an image fills its border with zeros, so zero must be the background.
    images = images - background
    train = TensorBatches(images[rows[0]], labels[rows[0]], batch, train=True, shift=4 if colour else 1, seed=seed)
    test = TensorBatches(images[rows[1]], labels[rows[1]], batch, train=False)
    return Data(train, test, [str(digit) for digit in range(10)], tuple(images.shape[1:]))  # type: ignore[arg-type]


def fake(batch: int, seed: int, *, size: int, classes: int, batches: int) -> Data:
    """Noise with a different faint pattern for each class, so that there is something to learn; to measure speed with."""
    random = torch.Generator().manual_seed(seed)
    patterns = torch.randn(classes, 3, size, size, generator=random)

    def made(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(0, classes, (count,), generator=random)
        return torch.randn(count, 3, size, size, generator=random) + 0.5 * patterns[labels], labels

    train = TensorBatches(*made(min(batches, 8) * batch), batch, train=True, seed=seed)
    test = TensorBatches(*made(batch), batch, train=False)
    return Data(Repeated(train, batches), test, [str(index) for index in range(classes)], (3, size, size))


class Repeated:
    """Goes around `loader` until `batches` batches were given."""

    def __init__(self, loader: Any, batches: int) -> None:
        self.loader, self.batches = loader, batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[Any]:
        given = 0
        while given < self.batches:
            for batch in self.loader:
                yield batch
                given += 1
                if given == self.batches:
                    return


def _open_image(path: str) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except OSError as error:
        raise DataError(f"image {path} can't be read: {error}. Remove or replace it.") from error


def folder(path: str, batch: int, seed: int, *, size: int, workers: int) -> Data:
    """Pictures in one folder a class, under `path`/train and `path`/val, or under `path`, of which every tenth is then kept for evaluation."""
    from torchvision import datasets, transforms

    root = pathlib.Path(path)
    normal = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    random_view = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normal])
    middle = transforms.Compose([transforms.Resize(size * 8 // 7), transforms.CenterCrop(size), transforms.ToTensor(), normal])
    split = (root / "train").is_dir()
    try:
        train_set: Any = datasets.ImageFolder(str(root / "train" if split else root), random_view, loader=_open_image)
        test_set: Any = datasets.ImageFolder(str(root / "val" if split else root), middle, loader=_open_image)
    except OSError as error:
        wanted = "PATH/train/CLASS/picture.jpg and PATH/val/CLASS/picture.jpg, or PATH/CLASS/picture.jpg"
        raise DataError(f"no images can be read in {path}: {error} Expected are {wanted}.") from error
    classes = train_set.classes
    if test_set.classes != classes:
        raise DataError(f"{path}/train and {path}/val hold different classes: {classes} and {test_set.classes}")
    if not split:
        count = len(train_set)
        test_rows = range(0, count, 10)
        train_set = torch.utils.data.Subset(train_set, [row for row in range(count) if row % 10])
        test_set = torch.utils.data.Subset(test_set, list(test_rows))
    if len(train_set) < batch:
        raise DataError(f"a batch of {batch} needs as many training images; {path} has {len(train_set)}. Use a smaller --batch.")
    random = torch.Generator().manual_seed(seed)
    train = torch.utils.data.DataLoader(train_set, batch, shuffle=True, drop_last=True, num_workers=workers, generator=random)
    test = PaddedLoader(torch.utils.data.DataLoader(test_set, batch, num_workers=workers), batch)
    return Data(train, test, classes, (3, size, size))


def load(name: str, model: str, batch: int, seed: int, *, size: int, classes: int, batches: int, workers: int) -> Data:
    """The data called `name`: "digits", "fake", or a folder."""
    if name == "digits":
        return digits(batch, seed, colour=model != "digits_vit")
    if name == "fake":
        return fake(batch, seed, size=size, classes=classes, batches=batches)
    if not pathlib.Path(name).is_dir():
        raise DataError(f"--data is digits, fake or a folder; there is no folder {name}")
    return folder(name, batch, seed, size=size, workers=workers)
