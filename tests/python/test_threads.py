"""Threads: the backward's own, and users' that work at once."""

import threading

import torch
import torch_xla
from programs import watch


def _in_threads(count: int, function) -> None:
    errors = []

    def guarded(index: int) -> None:
        try:
            function(index)
        except BaseException as error:  # noqa: BLE001  shown by the test
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def test_backward_joins_the_step(xla) -> None:
    x = torch.randn(4, 4).to(xla).requires_grad_()
    torch_xla.sync(wait=True)
    with watch() as work:
        (x @ x).tanh().sum().backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
        torch_xla.sync()
    assert work.launches == 1


def test_a_loader_thread_does_not_cut_the_step(xla) -> None:
    x = torch.zeros(4, device=xla)
    torch_xla.sync(wait=True)
    moved = []
    with watch() as work:
        y = x + 1
        _in_threads(2, lambda index: moved.append(torch.full((3,), float(index)).to(xla)))
        y = y * 2
        torch_xla.sync()
    assert work.launches == 1 and y.tolist() == [2] * 4
    assert sorted(tensor[0].item() for tensor in moved) == [0, 1]


def test_stress(xla) -> None:
    """Threads that train models of their own and share a tensor get what they would get alone."""
    shared = torch.arange(16.0).reshape(4, 4) / 16
    on_device = shared.to(xla)

    def alone(index: int, device: str, common: torch.Tensor) -> list[float]:
        weight = (torch.arange(16.0).reshape(4, 4) * (index + 1) / 50).to(device).requires_grad_()
        losses = []
        for step in range(15):
            loss = (common @ weight).tanh().square().mean()
            loss.backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
            if step % 3 == index % 3:
                losses.append(loss.item())
            elif device == "xla" and step % 3 == (index + 1) % 3:
                torch_xla.sync()
        return losses

    results: dict[int, list[float]] = {}

    def run(index: int) -> None:
        results[index] = alone(index, "xla", on_device)

    _in_threads(6, run)
    for index in range(6):
        torch.testing.assert_close(torch.tensor(results[index]), torch.tensor(alone(index, "cpu", shared)), rtol=1e-4, atol=1e-6)


def test_values_move_between_threads(xla) -> None:
    x = torch.ones(3, device=xla)
    made: list[torch.Tensor] = []

    def make(index: int) -> None:
        made.append(x * (index + 1))

    _in_threads(4, make)
    total = sum(made[1:], made[0])
    assert total.tolist() == [10] * 3
