"""Programs saved as StableHLO text are what JAX's own parser reads. Skipped where JAX is not installed."""

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm


@pytest.fixture
def parse():
    """JAX's parser: raises on a text that is not StableHLO."""
    mlir = pytest.importorskip("jax._src.interpreters.mlir")
    ir = pytest.importorskip("jaxlib.mlir.ir")

    def run(text: str) -> str:
        with mlir.make_ir_context():
            return str(ir.Module.parse(text))

    return run


def step(layers: torch.nn.Module, x: torch.Tensor, labels: torch.Tensor) -> None:
    """One training step, left pending."""
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3)
    torch.nn.functional.cross_entropy(layers(x), labels).backward()
    optimizer.step()


def test_a_training_step(xla, parse) -> None:
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Conv1d(4, 16, 4, 4), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Flatten(2), encoder, torch.nn.Flatten())
    model = torch.nn.Sequential(model, torch.nn.Linear(16 * 16, 3)).to(xla)
    x, labels = torch.randn(8, 4, 64, device=xla), torch.randint(3, (8,), device=xla)
    torch_xla.sync()
    step(model, x, labels)
    text = xm.get_stablehlo()
    assert "stablehlo.dot_general" in parse(text)


OPERATIONS = {
    "sort": lambda x: x.sort(dim=1),
    "argmax": lambda x: x.argmax(1),
    "index": lambda x: x[torch.tensor([0, 2], device=x.device)],
    "scatter": lambda x: x.index_add(0, torch.tensor([0, 2], device=x.device), x[:2]),
    "pool": lambda x: torch.nn.functional.max_pool2d(x[None, None], 2),
    "bf16": lambda x: x.bfloat16().softmax(0),
    "random": lambda x: torch.rand_like(x),
    "transpose": lambda x: (x @ x.t()).t().contiguous(),
    "bits": lambda x: x.int().bitwise_not(),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(xla, parse, name: str) -> None:
    x = torch.randn(6, 6, device=xla)
    torch_xla.sync()
    result = OPERATIONS[name](x)
    assert "func" in parse(xm.get_stablehlo())
    del result
