"""Models for the training example: any torchvision classifier, and a Vision Transformer sized for 8×8 digits."""

from typing import Any

import torch
import torchvision


class ModelError(Exception):
    """There is no such model; the message says what there is."""


def digits_vit(shape: tuple[int, int, int], classes: int, dropout: float = 0.0) -> torch.nn.Module:
    """torchvision's VisionTransformer over patches of 2×2 pixels: 4 layers, 64 wide, 137 thousand parameters."""
    channels, height, width = shape
    if height != width or height % 2:
        raise ModelError(f"digits_vit takes square images with an even side; these are {height}×{width}")
    model = torchvision.models.VisionTransformer(
        image_size=height,
        patch_size=2,
        num_layers=4,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=128,
        dropout=dropout,
        num_classes=classes,
    )
    if channels != 3:
        model.conv_proj = torch.nn.Conv2d(channels, 64, kernel_size=2, stride=2)
        # torchvision's own start values, for the layer that was replaced.
        fan_in = channels * 4
        torch.nn.init.trunc_normal_(model.conv_proj.weight, std=fan_in**-0.5)
        torch.nn.init.zeros_(model.conv_proj.bias)
    # Start values of torchvision's size (0.02) drown in the patches' own (about 1) at this width, and learning where a patch lies takes hundreds of epochs.
    torch.nn.init.normal_(model.encoder.pos_embedding, std=0.5)
    # torchvision starts the head at zero, which leaves the first gradients of everything below it zero too.
    torch.nn.init.trunc_normal_(model.heads.head.weight, std=0.02)
    return model


def make(name: str, shape: tuple[int, int, int], classes: int) -> torch.nn.Module:
    """The model called `name` for images of `shape`."""
    if name == "digits_vit":
        return digits_vit(shape, classes)
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        raise ModelError(f"there is no model {name!r}; there are digits_vit and torchvision's {', '.join(known)}")
    extra: dict[str, Any] = {}
    if name.startswith("vit_"):
        extra["image_size"] = shape[1]
    if name in ("googlenet", "inception_v3"):
        extra.update(aux_logits=False, init_weights=True)
    try:
        return torchvision.models.get_model(name, weights=None, num_classes=classes, **extra)
    except (ValueError, AssertionError, RuntimeError) as error:
        raise ModelError(f"torchvision can't make {name} for images of {shape[1]}×{shape[2]}: {error}") from error
