"""The `thalweg` program: the interpreter's results against NumPy and PyTorch, npz files, checks, and exit codes for bad input."""

import os
import pathlib
import subprocess
import zlib

import numpy as np
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "ui8", "uint16": "ui16",
    "uint32": "ui32", "uint64": "ui64", "bool": "i1", "complex64": "complex<f32>", "complex128": "complex<f64>",
}  # fmt: skip


def find_program() -> str:
    """Path of the built program."""
    given = os.environ.get("THALWEG_PROGRAM")
    built = sorted([*ROOT.glob("build*/thalweg"), *ROOT.glob("build/*/thalweg")], key=lambda path: path.stat().st_mtime)
    if not given and not built:
        pytest.skip("the thalweg program is not built")
    return given or str(built[-1])


def thalweg(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs the program."""
    return subprocess.run([find_program(), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False)


def tensor(array: np.ndarray) -> str:
    """The StableHLO type of an array."""
    return "tensor<" + "".join(f"{n}x" for n in array.shape) + TYPES[str(array.dtype)] + ">"


@pytest.fixture
def evaluate(tmp_path, device):
    """A function that runs ops over %0, %1, … and gives the results named in its text as arrays."""

    def run(ops: str, results: str, *inputs: np.ndarray, functions: str = "") -> list[np.ndarray]:
        arguments = ", ".join(f"%{i}: {tensor(x)}" for i, x in enumerate(inputs))
        values, types = zip(*(part.split(":") for part in results.split(";")), strict=True)
        text = f"func.func @main({arguments}) -> ({', '.join(types)}) {{\n{ops}\nreturn {', '.join(values)} : {', '.join(types)}\n}}\n{functions}"
        (tmp_path / "program.mlir").write_text(text)
        np.savez(tmp_path / "in.npz", **{f"in_{i}": x for i, x in enumerate(inputs)})
        done = thalweg("run", tmp_path / "program.mlir", "--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz", "--device", device)
        assert done.returncode == 0, done.stderr + text
        with np.load(tmp_path / "out.npz") as file:
            return [file[f"out_{i}"] for i in range(len(values))]

    return run


@pytest.fixture(params=["interpreter", "cpu"])
def device(request):
    """Each way to run a program."""
    return request.param


@pytest.fixture
def rng(request):
    """Random numbers; the seed is in the test's output when it fails."""
    seed = int(os.environ.get("THALWEG_SEED", zlib.crc32(request.node.name.encode())))
    print(f"THALWEG_SEED={seed}")
    return np.random.default_rng(seed)


def as_torch(x: np.ndarray) -> torch.Tensor:
    """The array as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(x))


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance from exact float64 values in units of the last place of the result's dtype."""
    rounded = exact.astype(got.dtype)
    finite = np.isfinite(rounded) & np.isfinite(exact)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    spacing = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    return float(np.max(np.abs(got[finite].astype(np.float64) - exact[finite]) / spacing, initial=0.0))


UNARY = {
    "exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log, "log_plus_one": np.log1p, "tanh": np.tanh, "sine": np.sin, "cosine": np.cos,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "tan": np.tan, "logistic": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "negate": np.negative,
    "floor": np.floor, "ceil": np.ceil, "abs": np.abs, "sign": np.sign, "round_nearest_even": np.rint,
}  # fmt: skip


def test_unary_functions(evaluate, rng):
    x = np.concatenate([rng.normal(size=500) * 10, rng.normal(size=100) * 1e-4, [0.0, -0.0, 1.0, -1.0, 88.0, -100.0, 1e-30]]).astype(np.float32)
    ops = "\n".join(f"%r{i} = stablehlo.{name} %0 : {tensor(x)}" for i, name in enumerate(UNARY))
    results = evaluate(ops, ";".join(f"%r{i}:{tensor(x)}" for i in range(len(UNARY))), x)
    with np.errstate(all="ignore"):
        for (name, function), got in zip(UNARY.items(), results, strict=True):
            exact = function(x.astype(np.float64))
            np.testing.assert_array_equal(np.isnan(got), np.isnan(exact), err_msg=name)
            keep = ~np.isnan(exact)
            assert ulps(got[keep], exact[keep]) <= 2.5, name


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32])
def test_integer_arithmetic_wraps_and_divides_by_zero(evaluate, rng, dtype):
    info = np.iinfo(dtype)
    a = np.concatenate([rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True), np.array([info.min, info.max, 7, 0], dtype)])
    b = np.concatenate([rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True), np.array([info.max, info.min, 0, 3], dtype)])
    t = tensor(a)
    names = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor"]
    ops = "\n".join(f"%r{i} = stablehlo.{name} %0, %1 : {t}" for i, name in enumerate(names))
    got = dict(zip(names, evaluate(ops, ";".join(f"%r{i}:{t}" for i in range(len(names))), a, b), strict=True))
    with np.errstate(all="ignore"):
        for name, function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}.items():
            np.testing.assert_array_equal(got[name], function(a, b), err_msg=name)
        for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            quotient = -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            assert got["divide"][i] == np.array(quotient).astype(dtype), (x, y)
            assert got["remainder"][i] == (x if y == 0 else x - quotient * y), (x, y)


def test_dot_general_with_batches_in_the_middle(evaluate, rng):
    a, b = rng.normal(size=(4, 3, 5, 2)), rng.normal(size=(2, 6, 5, 3))
    out = np.einsum("abcd,decb->bdae", a, b)
    ops = f"%r = stablehlo.dot_general %0, %1, batching_dims = [1, 3] x [3, 0], contracting_dims = [2] x [2] : ({tensor(a)}, {tensor(b)}) -> {tensor(out)}"
    np.testing.assert_allclose(evaluate(ops, f"%r:{tensor(out)}", a, b)[0], out, rtol=1e-12)


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (2, 1, 1, 3), (1, 1, 2, 6)])
def test_convolution(evaluate, rng, stride, padding, dilation, groups):
    x, w = rng.normal(size=(2, 6, 9, 8)), rng.normal(size=(12, 6 // groups, 3, 2))
    out = torch.nn.functional.conv2d(as_torch(x), as_torch(w), stride=stride, padding=padding, dilation=dilation, groups=groups).numpy()
    window = f"stride = [{stride}, {stride}], pad = [[{padding}, {padding}], [{padding}, {padding}]], rhs_dilate = [{dilation}, {dilation}]"
    ops = (
        f"%r = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{{window}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({tensor(x)}, {tensor(w)}) -> {tensor(out)}"
    )
    np.testing.assert_allclose(evaluate(ops, f"%r:{tensor(out)}", x, w)[0], out, rtol=1e-10, atol=1e-12)


def test_transposed_convolution_and_reversed_window(evaluate, rng):
    x, w = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(4, 3, 3, 3))
    out = torch.nn.functional.conv_transpose2d(as_torch(x), as_torch(w), stride=2, padding=1).numpy()
    ops = (
        "%r = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], "
        "window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], reverse = [true, true]} "
        f"{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({tensor(x)}, {tensor(w)}) -> {tensor(out)}"
    )
    np.testing.assert_allclose(evaluate(ops, f"%r:{tensor(out)}", x, w)[0], out, rtol=1e-10, atol=1e-12)


def region(op: str, dtype: str = "f64") -> str:
    """A region that applies a binary op."""
    return f"({{ ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>): %c = stablehlo.{op} %a, %b : tensor<{dtype}> stablehlo.return %c : tensor<{dtype}> }})"


def test_pooling_and_its_gradient(evaluate, rng):
    x = rng.permutation(2 * 3 * 8 * 7).astype(np.float64).reshape(2, 3, 8, 7)
    t = as_torch(x).requires_grad_()
    best = torch.nn.functional.max_pool2d(t, 3, stride=2, padding=1)
    total = torch.nn.functional.avg_pool2d(t, 3, stride=2, padding=1, count_include_pad=True) * 9
    g = rng.normal(size=tuple(best.shape))
    best.backward(as_torch(g))
    window = "window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>"
    window += ", padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>"
    select = "{ ^bb0(%a: tensor<f64>, %b: tensor<f64>): %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>"
    select += " stablehlo.return %c : tensor<i1> }"
    ops = f"""
      %low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %m = "stablehlo.reduce_window"(%0, %low) <{{{window}}}> {region("maximum")} : ({tensor(x)}, tensor<f64>) -> {tensor(g)}
      %s = "stablehlo.reduce_window"(%0, %zero) <{{{window}}}> {region("add")} : ({tensor(x)}, tensor<f64>) -> {tensor(g)}
      %d = "stablehlo.select_and_scatter"(%0, %1, %zero) <{{{window}}}> ({select}, {region("add")[1:-1]})
        : ({tensor(x)}, {tensor(g)}, tensor<f64>) -> {tensor(x)}
    """
    m, s, d = evaluate(ops, f"%m:{tensor(g)};%s:{tensor(g)};%d:{tensor(x)}", x, g)
    np.testing.assert_array_equal(m, best.detach().numpy())
    np.testing.assert_allclose(s, total.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(d, t.grad.numpy(), rtol=1e-12)


def test_batch_norm(evaluate, rng):
    x, scale, offset, g = rng.normal(size=(4, 3, 5)), rng.normal(size=3), rng.normal(size=3), rng.normal(size=(4, 3, 5))
    t, s, o = (as_torch(v).requires_grad_() for v in (x, scale, offset))
    y = torch.nn.functional.batch_norm(t, None, None, s, o, training=True, eps=1e-3)
    y.backward(as_torch(g))
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    attrs = "<{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}>"
    a, b = tensor(x), tensor(scale)
    ops = f"""
      %y:3 = "stablehlo.batch_norm_training"(%0, %1, %2) {attrs} : ({a}, {b}, {b}) -> ({a}, {b}, {b})
      %d:3 = "stablehlo.batch_norm_grad"(%0, %1, %3, %4, %5) {attrs} : ({a}, {b}, {b}, {b}, {a}) -> ({a}, {b}, {b})
      %i = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {attrs} : ({a}, {b}, {b}, {b}, {b}) -> {a}
    """
    names = f"%y#0:{a};%y#1:{b};%y#2:{b};%d#0:{a};%d#1:{b};%d#2:{b};%i:{a}"
    got = evaluate(ops, names, x, scale, offset, mean, variance, g)
    wanted = [y.detach().numpy(), mean, variance, t.grad.numpy(), s.grad.numpy(), o.grad.numpy(), y.detach().numpy()]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_fourier_transforms(evaluate, rng):
    z, x = rng.normal(size=(3, 5, 6)) + 1j * rng.normal(size=(3, 5, 6)), rng.normal(size=(2, 4, 7))
    half = np.fft.rfftn(x, axes=(1, 2))
    ops = f"""
      %f = stablehlo.fft %0, type = FFT, length = [5, 6] : ({tensor(z)}) -> {tensor(z)}
      %i = stablehlo.fft %0, type = IFFT, length = [6] : ({tensor(z)}) -> {tensor(z)}
      %r = stablehlo.fft %1, type = RFFT, length = [4, 7] : ({tensor(x)}) -> {tensor(half)}
      %b = stablehlo.fft %r, type = IRFFT, length = [4, 7] : ({tensor(half)}) -> {tensor(x)}
    """
    got = evaluate(ops, f"%f:{tensor(z)};%i:{tensor(z)};%r:{tensor(half)};%b:{tensor(x)}", z, x)
    for one, other in zip(got, [np.fft.fftn(z, axes=(1, 2)), np.fft.ifft(z), half, x], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_cholesky_and_triangular_solve(evaluate, rng):
    m = rng.normal(size=(2, 5, 5)) + 1j * rng.normal(size=(2, 5, 5))
    a = m @ m.conj().transpose(0, 2, 1) + 5 * np.eye(5)
    b, c = rng.normal(size=(2, 5, 3)) + 0j, rng.normal(size=(2, 3, 5)) + 0j
    low = np.linalg.cholesky(a)

    def solve(operand: str, right: str, shape: np.ndarray, left: bool, transpose: str) -> str:
        attrs = f"left_side = {str(left).lower()}, lower = true, transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = false"
        return f'"stablehlo.triangular_solve"({operand}, {right}) <{{{attrs}}}> : ({tensor(a)}, {tensor(shape)}) -> {tensor(shape)}'

    ops = f"""
      %l = stablehlo.cholesky %0, lower = true : {tensor(a)}
      %x = {solve("%l", "%1", b, True, "NO_TRANSPOSE")}
      %y = {solve("%l", "%1", b, True, "ADJOINT")}
      %z = {solve("%l", "%2", c, False, "TRANSPOSE")}
    """
    got = evaluate(ops, f"%l:{tensor(a)};%x:{tensor(b)};%y:{tensor(b)};%z:{tensor(c)}", a, b, c)
    np.testing.assert_allclose(np.tril(got[0]), low, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(low @ got[1], b, atol=1e-10)
    np.testing.assert_allclose(low.conj().transpose(0, 2, 1) @ got[2], b, atol=1e-10)
    np.testing.assert_allclose(got[3] @ low.transpose(0, 2, 1), c, atol=1e-10)


def test_gather_and_scatter(evaluate, rng):
    table, rows, updates = rng.normal(size=(7, 4)), rng.integers(-3, 12, size=(5, 1), dtype=np.int32), rng.normal(size=(5, 4))
    attrs = "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>"
    scatter = "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    ops = f"""
      %g = "stablehlo.gather"(%0, %1) <{{dimension_numbers = {attrs}, slice_sizes = array<i64: 1, 4>}}> : ({tensor(table)}, {tensor(rows)}) -> {tensor(updates)}
      %s = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers = {scatter}}}> {region("add")} : ({tensor(table)}, {tensor(rows)}, {tensor(updates)})
        -> {tensor(table)}
    """
    gathered, scattered = evaluate(ops, f"%g:{tensor(updates)};%s:{tensor(table)}", table, rows, updates)
    np.testing.assert_array_equal(gathered, table[np.clip(rows[:, 0], 0, 6)])  # start indices are clamped
    wanted = table.copy()
    inside = (rows[:, 0] >= 0) & (rows[:, 0] < 7)  # updates outside are dropped
    np.add.at(wanted, rows[inside, 0], updates[inside])
    np.testing.assert_allclose(scattered, wanted, rtol=1e-14)


def test_sort_is_stable_and_reduce_of_pairs(evaluate, rng):
    x = rng.integers(0, 5, size=(4, 50)).astype(np.int32)
    t, f = tensor(x), "tensor<i32>"
    less = f"({{ ^bb0(%a: {f}, %b: {f}, %c: {f}, %d: {f}): %l = stablehlo.compare LT, %a, %b, SIGNED : ({f}, {f}) -> tensor<i1>"
    less += " stablehlo.return %l : tensor<i1> })"
    ops = f"""
      %i = stablehlo.iota dim = 1 : {t}
      %s:2 = "stablehlo.sort"(%0, %i) <{{dimension = 1 : i64, is_stable = true}}> {less} : ({t}, {t}) -> ({t}, {t})
    """
    values, places = evaluate(ops, f"%s#0:{t};%s#1:{t}", x)
    np.testing.assert_array_equal(values, np.sort(x, axis=1))
    np.testing.assert_array_equal(places, np.argsort(x, axis=1, kind="stable"))


def test_movement(evaluate, rng):
    x, at = rng.normal(size=(5, 6)), np.array([9, -4], np.int32)
    i = "tensor<i32>"
    ops = f"""
      %z = stablehlo.constant dense<7.0> : tensor<f64>
      %p = stablehlo.pad %0, %z, low = [-1, 2], high = [3, -1], interior = [2, 0] : ({tensor(x)}, tensor<f64>) -> tensor<15x7xf64>
      %a = stablehlo.slice %1 [0:1] : (tensor<2xi32>) -> tensor<1xi32>
      %b = stablehlo.slice %1 [1:2] : (tensor<2xi32>) -> tensor<1xi32>
      %c = stablehlo.reshape %a : (tensor<1xi32>) -> {i}
      %d = stablehlo.reshape %b : (tensor<1xi32>) -> {i}
      %s = stablehlo.dynamic_slice %0, %c, %d, sizes = [2, 3] : ({tensor(x)}, {i}, {i}) -> tensor<2x3xf64>
      %n = stablehlo.negate %s : tensor<2x3xf64>
      %u = stablehlo.dynamic_update_slice %0, %n, %c, %d : ({tensor(x)}, tensor<2x3xf64>, {i}, {i}) -> {tensor(x)}
      %r = stablehlo.reverse %0, dims = [1] : {tensor(x)}
      %t = stablehlo.transpose %r, dims = [1, 0] : ({tensor(x)}) -> tensor<6x5xf64>
      %k = stablehlo.concatenate %0, %r, dim = 0 : ({tensor(x)}, {tensor(x)}) -> tensor<10x6xf64>
    """
    padded, piece, updated, turned, joined = evaluate(
        ops, f"%p:tensor<15x7xf64>;%s:tensor<2x3xf64>;%u:{tensor(x)};%t:tensor<6x5xf64>;%k:tensor<10x6xf64>", x, at
    )
    wanted = np.full((16, 8), 7.0)
    wanted[0:13:3, 2:] = x
    np.testing.assert_array_equal(padded, np.pad(wanted, ((0, 0), (0, 0)))[1:16, :7])
    np.testing.assert_array_equal(piece, x[3:5, 0:3])
    changed = x.copy()
    changed[3:5, 0:3] *= -1
    np.testing.assert_array_equal(updated, changed)
    np.testing.assert_array_equal(turned, x[:, ::-1].T)
    np.testing.assert_array_equal(joined, np.concatenate([x, x[:, ::-1]]))


def philox(seed: int, block: int) -> list[int]:
    """Philox4x32-10 of one block, written from its paper."""
    word = 0xFFFFFFFF
    x, k = [block & word, block >> 32, 0, 0], [seed & word, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(q >> 32) ^ x[1] ^ k[0], q & word, (p >> 32) ^ x[3] ^ k[1], p & word]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return x


def test_philox(evaluate):
    state = np.array([0x123456789ABCDEF0, 2**32 - 1], np.uint64)
    ops = "%s, %b = stablehlo.rng_bit_generator %0, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5x2xui32>)"
    after, bits = evaluate(ops, "%s:tensor<2xui64>;%b:tensor<5x2xui32>", state)
    wanted = [word for block in range(3) for word in philox(int(state[0]), int(state[1]) + block)]
    np.testing.assert_array_equal(bits.ravel(), np.array(wanted[:10], np.uint32))
    np.testing.assert_array_equal(after, state + np.array([0, 3], np.uint64))


def test_control_flow_and_calls(evaluate):
    n = np.array(10, np.int64)
    i, p = "tensor<i64>", "tensor<i1>"
    ops = f"""
      %one = stablehlo.constant dense<1> : {i}
      %zero = stablehlo.constant dense<0> : {i}
      %w:2 = stablehlo.while(%k = %0, %product = %one) : {i}, {i}
        cond {{ %c = stablehlo.compare GT, %k, %zero, SIGNED : ({i}, {i}) -> {p} stablehlo.return %c : {p} }}
        do {{ %m = func.call @times(%product, %k) : ({i}, {i}) -> {i} %d = stablehlo.subtract %k, %one : {i} stablehlo.return %d, %m : {i}, {i} }}
      %c = stablehlo.compare GT, %w#1, %0, SIGNED : ({i}, {i}) -> {p}
      %f = "stablehlo.if"(%c) ({{ %x = stablehlo.negate %w#1 : {i} stablehlo.return %x : {i} }}, {{ stablehlo.return %zero : {i} }}) : ({p}) -> {i}
      %s = stablehlo.constant dense<7> : tensor<i32>
      %e = "stablehlo.case"(%s) ({{ stablehlo.return %zero : {i} }}, {{ stablehlo.return %one : {i} }}) : (tensor<i32>) -> {i}
      %q = stablehlo.composite "my.times" %0, %0 {{decomposition = @times, version = 1 : i32}} : ({i}, {i}) -> {i}
    """
    times = f"func.func private @times(%a: {i}, %b: {i}) -> {i} {{ %c = stablehlo.multiply %a, %b : {i} return %c : {i} }}"
    got = evaluate(ops, f"%w#1:{i};%f:{i};%e:{i};%q:{i}", n, functions=times)
    assert [int(x) for x in got] == [3628800, -3628800, 1, 100]


def test_npz_compressed_and_column_major(tmp_path, rng):
    x, y = rng.normal(size=(40, 30)).astype(np.float32), np.asfortranarray(rng.normal(size=(40, 30)).astype(np.float32))
    t = tensor(x)
    (tmp_path / "p.mlir").write_text(f"func.func @main(%a: {t}, %b: {t}) -> {t} {{ %c = stablehlo.subtract %a, %b : {t} return %c : {t} }}")
    np.savez_compressed(tmp_path / "in.npz", in_0=x, in_1=y)
    np.savez(tmp_path / "want.npz", out_0=x - y)
    done = thalweg("run", tmp_path / "p.mlir", "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "want.npz", "--tolerance", "0", "--repeat", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    np.savez(tmp_path / "wrong.npz", out_0=x)
    done = thalweg("run", tmp_path / "p.mlir", "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "wrong.npz")
    assert done.returncode == 1 and "elements, first at 0" in done.stdout


def checked(want: str) -> str:
    """A test program that adds 1 and 1."""
    return f"""func.func @main() {{
      %0 = call @inputs() : () -> tensor<2xf32>
      %1 = call @expected() : () -> tensor<2xf32>
      %2 = stablehlo.add %0, %0 : tensor<2xf32>
      stablehlo.custom_call @check.expect_eq(%2, %1) {{has_side_effect = true}} : (tensor<2xf32>, tensor<2xf32>) -> ()
      return }}
    func.func private @inputs() -> tensor<2xf32> {{ %0 = stablehlo.constant dense<1.0> : tensor<2xf32> return %0 : tensor<2xf32> }}
    func.func private @expected() -> tensor<2xf32> {{ %0 = stablehlo.constant dense<{want}> : tensor<2xf32> return %0 : tensor<2xf32> }}"""


def test_exit_codes_of_checks(tmp_path, device):
    for want, code in (("2.0", 0), ("[2.0, 3.0]", 1)):
        (tmp_path / "p.mlir").write_text(checked(want))
        done = thalweg("run", tmp_path / "p.mlir", "--device", device)
        assert done.returncode == code, done.stdout + done.stderr
    assert "1 of 2 elements wrong" in done.stdout


T = "tensor<2x3xf32>"
BAD = {
    "unknown op": ("%b = stablehlo.adds %a, %a : tensor<2x3xf32>", "unknown op: stablehlo.adds"),
    "unknown attribute": ("%b = stablehlo.add %a, %a {x = bogus<1>} : tensor<2x3xf32>", "unknown attribute: bogus"),
    "malformed type": ("%b = stablehlo.add %a, %a : tensor<2xx3xf32>", "element type"),
    "shape mismatch": ("%b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>", "the op gives: tensor<3x2xf32>"),
    "dangling value": ("%b = stablehlo.add %a, %zz : tensor<2x3xf32>", "value is not defined"),
    "huge constant without data": ('%b = stablehlo.constant dense<"0x00000000AA"> : tensor<300000000xf32>', "5 bytes, expected 1200000000 or 4"),
    "deep nesting": ("%b = " + '"stablehlo.if"(%a) ({' * 100000, "nested too deeply"),
    "deep attribute": ("stablehlo.custom_call @x() {a = " + "[" * 100000 + "} : () -> ()", "nested too deeply"),
    "too many elements": ("%b = stablehlo.iota dim = 0 : tensor<9223372036854775807x9xf32>", "more elements than can be counted"),
    "region of a CHLO op": (f'%b = "chlo.x"(%a) ({{ ^bb0(%c: {T}): stablehlo.return %c : {T} }}) : ({T}) -> {T}', "which has none"),
    "unclosed": ("%b = stablehlo.constant dense<[1.0, 2.0 : tensor<2xf32>", "expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_programs_are_errors(tmp_path, name):
    ops, message = BAD[name]
    (tmp_path / "bad.mlir").write_text(f"func.func @main(%a: {T}) {{\n{ops}\nreturn\n}}\n")
    for command in ("check", "run", "opt"):
        done = thalweg(command, tmp_path / "bad.mlir")
        assert done.returncode == 2, (command, done.stdout, done.stderr[:500])
        assert message in done.stderr and "bad.mlir:" in done.stderr, done.stderr[:500]


def test_bad_inputs_are_errors(tmp_path, device):
    (tmp_path / "p.mlir").write_text(f"func.func @main(%a: {T}) -> {T} {{ return %a : {T} }}")
    good = np.zeros((2, 3), np.float32)
    for name, array in {"shape": np.zeros((3, 2), np.float32), "dtype": np.zeros((2, 3), np.float64), "big-endian": good.astype(">f4")}.items():
        np.savez(tmp_path / "in.npz", in_0=array)
        done = thalweg("run", tmp_path / "p.mlir", "--inputs", tmp_path / "in.npz", "--device", device)
        assert done.returncode == 2 and done.stderr, name
    np.savez(tmp_path / "in.npz", other=good)
    cases = [
        ("--inputs", tmp_path / "in.npz"),
        ("--inputs", tmp_path / "none.npz"),
        ("--inputs", tmp_path / "p.mlir"),
        (),
        ("--device", "tpu"),
        ("--bogus",),
        ("--repeat", "x"),
    ]
    for case in cases:
        done = thalweg("run", tmp_path / "p.mlir", *case)
        assert done.returncode == 2 and done.stderr, case
    assert thalweg("run", tmp_path / "missing.mlir").returncode == 2
    assert thalweg("nonsense").returncode == 2


def test_more_memory_than_there_is(tmp_path, device):
    big = "tensor<1000000000000xf32>"
    (tmp_path / "p.mlir").write_text(f"func.func @main() -> {big} {{ %0 = stablehlo.iota dim = 0 : {big} %1 = stablehlo.sine %0 : {big} return %1 : {big} }}")
    done = thalweg("run", tmp_path / "p.mlir", "--device", device)
    assert done.returncode == 2 and "memory" in done.stderr, done.stderr[:300]


def test_truncated_archives_are_errors(tmp_path, rng):
    (tmp_path / "p.mlir").write_text("func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> { return %a : tensor<64xf32> }")
    np.savez_compressed(tmp_path / "in.npz", in_0=rng.normal(size=64).astype(np.float32))
    whole = (tmp_path / "in.npz").read_bytes()
    for _ in range(40):
        broken = bytearray(whole)
        for _ in range(3):
            broken[rng.integers(len(broken))] = rng.integers(256)
        (tmp_path / "broken.npz").write_bytes(bytes(broken[: rng.integers(len(broken)) + 1]) if rng.random() < 0.5 else bytes(broken))
        assert thalweg("run", tmp_path / "p.mlir", "--inputs", tmp_path / "broken.npz").returncode in (0, 2)


def test_opt_prints_a_program_that_reads_back(tmp_path):
    (tmp_path / "p.mlir").write_text(
        f"func.func @main(%a: {T}) -> {T} {{ %0 = stablehlo.transpose %a, dims = [1, 0] : ({T}) -> tensor<3x2xf32>"
        f" %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x2xf32>) -> {T} %2 = stablehlo.negate %1 : {T} return %1 : {T} }}"
    )
    done = thalweg("opt", tmp_path / "p.mlir")
    assert done.returncode == 0 and "transpose" not in done.stdout and "negate" not in done.stdout, done.stdout
    (tmp_path / "q.mlir").write_text(done.stdout)
    assert thalweg("check", tmp_path / "q.mlir").returncode == 0
    assert "// after" in thalweg("opt", tmp_path / "p.mlir", "--print-after-each", "--passes", "canonicalize,dce").stdout


def test_random_programs(tmp_path):
    assert "0 differ" in (done := thalweg("random", "--device", "passes", "--count", "1500", "--seed", "5")).stdout, done.stdout
    assert "0 differ" in (done := thalweg("random", "--device", "cpu", "--count", "40", "--seed", "5", timeout=300)).stdout, done.stdout


GRAPH = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x4xf32>
  %3 = stablehlo.tanh %2 : tensor<8x4xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
  %6 = stablehlo.multiply %5, %x : tensor<8x16xf32>
  %7 = stablehlo.slice %6 [0:8, 0:4] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %8 = stablehlo.custom_call @"a<b>&c"(%7) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %8, %4 : tensor<8x4xf32>, tensor<8xf32>
}
"""


def test_the_picture_shows_every_op_in_its_box(tmp_path) -> None:
    import xml.etree.ElementTree

    (tmp_path / "program.mlir").write_text(GRAPH)
    done = thalweg("opt", tmp_path / "program.mlir", "--graph", tmp_path / "out.svg")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    svg = "{http://www.w3.org/2000/svg}"
    root = xml.etree.ElementTree.parse(tmp_path / "out.svg").getroot()
    boxes = {}
    for group in root.iter(svg + "g"):
        title, *lines = ("".join(text.itertext()) for text in group.findall(svg + "text"))
        boxes[title] = lines
    assert sorted(boxes) == ["call 1", "kernel 1", "kernel 2", "product 1", "product 2"], boxes
    assert any("tanh(" in line for line in boxes["kernel 1"]) and any("reduce(" in line for line in boxes["kernel 1"]), boxes
    assert any("multiply(" in line for line in boxes["kernel 2"]) and any("slice(" in line for line in boxes["kernel 2"]), boxes
    assert any("a<b>&c(" in line for line in boxes["call 1"]), boxes
    everything = " ".join(line for lines in boxes.values() for line in lines)
    for name in ("broadcast_in_dim", "add", "constant", "result 0", "result 1"):
        assert name in everything
    width, height = float(root.get("width")), float(root.get("height"))
    rects = [[float(r.get(k)) for k in ("x", "y", "width", "height")] for r in root.iter(svg + "rect") if r.get("x")]
    assert len(rects) == 5
    for i, (x, y, w, h) in enumerate(rects):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in rects[i + 1 :]), "boxes lie over one another"


def test_a_picture_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "program.mlir").write_text(GRAPH)
    done = thalweg("opt", tmp_path / "program.mlir", "--graph", tmp_path / "no" / "out.svg")
    assert done.returncode == 2 and "picture could not be written" in done.stderr
