"""`torch_xla.test.test_utils`: how example scripts report their progress."""

import time
from typing import Any


def now(format: str = "%H:%M:%S") -> str:
    """The time of day."""
    return time.strftime(format)


def get_summary_writer(logdir: str | None) -> Any:
    """A TensorBoard writer for `logdir`; None without one."""
    if not logdir:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(log_dir=logdir)


def close_summary_writer(summary_writer: Any) -> None:
    """Writes out and closes what get_summary_writer gave."""
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()


def write_to_summary(summary_writer: Any, global_step: int | None = None, dict_to_write: dict[str, Any] | None = None, write_xla_metrics: bool = False) -> None:
    """Writes scalars, and with write_xla_metrics the device's counters, if there is a writer."""
    if summary_writer is None:
        return
    for name, value in (dict_to_write or {}).items():
        summary_writer.add_scalar(name, value, global_step)
    if write_xla_metrics:
        from torch_xla.debug import metrics

        for name in metrics.counter_names():
            summary_writer.add_scalar(f"counters/{name}", metrics.counter_value(name), global_step)


def print_training_update(device: Any, step: int, loss: Any, rate: float, global_rate: float, epoch: int | None = None, summary_writer: Any = None) -> None:
    """Prints one line of training progress. Reads `loss`, so call it from a step closure."""
    value = loss.item() if hasattr(loss, "item") else float(loss)
    parts = [f"Training Device={device}", f"Epoch={epoch}" if epoch is not None else "", f"Step={step}", f"Loss={value:.5f}"]
    print("| " + " ".join(part for part in parts if part) + f" Rate={rate:.2f} GlobalRate={global_rate:.2f} Time={now()}", flush=True)
    write_to_summary(summary_writer, step, {"loss": value, "rate": rate})


def print_test_update(device: Any, accuracy: float | None, epoch: int | None = None, step: int | None = None) -> None:
    """Prints one line of test progress."""
    parts = [f"Test Device={device}", f"Step={step}" if step is not None else "", f"Epoch={epoch}" if epoch is not None else ""]
    parts.append(f"Accuracy={accuracy:.2f}" if accuracy is not None else "")
    print("| " + " ".join(part for part in parts if part) + f" Time={now()}", flush=True)
