"""What the wheel needs at run time: the minor version of the torch it is built against, and the libraries it loads. Called by scikit-build-core."""

import pathlib
import sys
from collections.abc import Mapping
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import find_torch  # noqa: E402


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of [project] that are only known now: the wheel's dependencies."""
    minor = ".".join(find_torch.facts()["VERSION"].split(".")[:2])
    return {"dependencies": [f"torch=={minor}.*", "numpy>=1.26", "scipy-openblas32>=0.3.27"]}
