"""Training in the form of the community's multi-device ImageNet script: launch, MpDeviceLoader, optimizer_step, RateTracker, step closures.

python examples/imagenet_style.py --fake_data --model resnet18 --image_size 64 --batch_size 16 --num_steps 20
python examples/imagenet_style.py --datadir FOLDER --model resnet50
"""
# quick: --fake_data --model resnet18 --image_size 32 --num_classes 10 --batch_size 4 --num_steps 6

import argparse
import os

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_backend  # noqa: F401  registers the process group "xla"
import torch_xla.runtime as xr
import torch_xla.utils.utils as xu
import torchvision
from torch_xla.test import test_utils


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datadir", default="")
    parser.add_argument("--fake_data", action="store_true")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--num_classes", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_epochs", type=int, default=1)
    parser.add_argument("--num_steps", type=int, default=50, help="steps an epoch with --fake_data")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--log_steps", type=int, default=5)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--metrics_debug", action="store_true")
    args = parser.parse_args(argv)
    if not args.fake_data and not args.datadir:
        parser.error("give --datadir FOLDER (with train/ and val/), or --fake_data")
    return args


def make_loaders(args: argparse.Namespace) -> tuple:
    size = args.image_size
    if args.fake_data:
        images = torch.randn(args.batch_size, 3, size, size)
        labels = torch.randint(0, args.num_classes, (args.batch_size,))
        train = xu.SampleGenerator((images, labels), args.num_steps)
        return train, xu.SampleGenerator((images, labels), max(args.num_steps // 10, 1))
    from torchvision import transforms

    normal = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    random_view = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normal])
    middle = transforms.Compose([transforms.Resize(size * 8 // 7), transforms.CenterCrop(size), transforms.ToTensor(), normal])
    train_set = torchvision.datasets.ImageFolder(os.path.join(args.datadir, "train"), random_view)
    test_set = torchvision.datasets.ImageFolder(os.path.join(args.datadir, "val"), middle)
    sampler = torch.utils.data.distributed.DistributedSampler(train_set, num_replicas=xr.world_size(), rank=xr.global_ordinal())
    train = torch.utils.data.DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True)
    return train, torch.utils.data.DataLoader(test_set, args.batch_size, drop_last=True)


def train_update(device: torch.device, step: int, loss: torch.Tensor, tracker: xm.RateTracker, epoch: int) -> None:
    test_utils.print_training_update(device, step, loss, tracker.rate(), tracker.global_rate(), epoch)


def train(args: argparse.Namespace) -> float:
    torch.manual_seed(42)
    device = torch_xla.device()
    train_loader, test_loader = make_loaders(args)
    model = torchvision.models.get_model(args.model, num_classes=args.num_classes).to(device)
    xm.broadcast_master_param(model)
    train_device_loader = pl.MpDeviceLoader(train_loader, device, loader_prefetch_size=8, device_prefetch_size=4)
    test_device_loader = pl.MpDeviceLoader(test_loader, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=1e-4)
    steps = len(train_loader) * args.num_epochs
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=steps + 1)
    loss_fn = torch.nn.CrossEntropyLoss()

    def train_epoch(epoch: int) -> None:
        tracker = xm.RateTracker()
        model.train()
        for step, (data, target) in enumerate(train_device_loader):
            optimizer.zero_grad()
            with torch.autocast("xla", torch.bfloat16, enabled=args.amp):
                loss = loss_fn(model(data), target)
            loss.backward()
            xm.optimizer_step(optimizer)
            schedule.step()
            tracker.add(args.batch_size)
            if step % args.log_steps == 0:
                xm.add_step_closure(train_update, args=(device, step, loss.detach(), tracker, epoch))

    def test_epoch(epoch: int) -> float:
        model.eval()
        correct, total = [], 0
        with torch.no_grad():
            for step, (data, target) in enumerate(test_device_loader):
                correct.append((model(data).argmax(1) == target).sum())
                total += data.size(0)
                if step % args.log_steps == 0:
                    xm.add_step_closure(test_utils.print_test_update, args=(device, None, epoch, step))
        accuracy = 100.0 * sum(count.item() for count in correct) / total
        return xm.mesh_reduce("test_accuracy", accuracy, lambda values: sum(values) / len(values))

    accuracy = 0.0
    for epoch in range(1, args.num_epochs + 1):
        xm.master_print(f"Epoch {epoch} train begin {test_utils.now()}")
        train_epoch(epoch)
        accuracy = test_epoch(epoch)
        xm.master_print(f"Epoch {epoch} test end, Accuracy={accuracy:.2f}")
    if args.checkpoint:
        xm.save(model.state_dict(), args.checkpoint)
    if args.metrics_debug:
        xm.master_print(met.metrics_report())
    xm.wait_device_ops()
    return accuracy


def run(index: int, args: argparse.Namespace) -> None:
    train(args)


if __name__ == "__main__":
    torch_xla.launch(run, args=(parse_args(),))
