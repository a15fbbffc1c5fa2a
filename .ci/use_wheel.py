"""Uses an installed wheel: both packages, their metadata, one computation. With `--without-clang`: it imports, and says how to get a CPU compiler."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import thalweg
import torch
import torch_xla

PRODUCT = """func.func @main() -> tensor<2x2xf32> {
  %0 = stablehlo.constant dense<2.0> : tensor<2x3xf32>
  %1 = stablehlo.constant dense<1.0> : tensor<3x2xf32>
  %2 = stablehlo.optimization_barrier %0 : tensor<2x3xf32>
  %3 = stablehlo.dot_general %2, %1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
"""

for package in (thalweg, torch_xla):
    folder = pathlib.Path(str(package.__file__)).resolve()
    assert "site-packages" in folder.parts and "wheel-check" in folder.parts, f"{package.__name__} comes from {folder}, not from the wheel"
minor = ".".join(torch.__version__.split(".")[:2])
assert importlib.metadata.version("torch_xla") == f"{minor}.0", importlib.metadata.version("torch_xla")
assert f"torch=={minor}.*" in (importlib.metadata.requires("thalweg") or []), importlib.metadata.requires("thalweg")

device = torch_xla.device()
a = torch.linspace(-2, 2, 12).reshape(3, 4)
if "--without-clang" in sys.argv[1:]:
    try:
        (torch.tanh(a.to(device)) * 2 + 1).cpu()
    except ImportError as error:
        assert "llvm" in str(error).lower() or "clang" in str(error).lower(), f"the message does not name the missing compiler: {error}"
        print(f"imports; computing says: {error}")
    else:
        raise SystemExit("a kernel was compiled without the Clang backend")
else:
    torch.testing.assert_close((torch.tanh(a.to(device)) * 2 + 1).cpu(), torch.tanh(a) * 2 + 1)
    program = pathlib.Path("product.mlir")
    program.write_text(PRODUCT)
    command = pathlib.Path(sys.executable).with_name("thalweg")
    environment = {name: value for name, value in os.environ.items() if name != "THALWEG_OPENBLAS"}
    done = subprocess.run([command, "run", program, "--device", "cpu"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 and "[[6.0, 6.0], [6.0, 6.0]]" in done.stdout, done.stdout + done.stderr
    print(f"thalweg {importlib.metadata.version('thalweg')} with torch {torch.__version__} computes on {device}")
