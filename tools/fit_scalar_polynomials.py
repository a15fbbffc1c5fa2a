"""Fits the polynomial coefficients of ir/scalar.h (needs mpmath): near-minimax by weighted least squares on Chebyshev nodes, then rounding."""

from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Function = Callable[[mp.mpf], mp.mpf]
Fit = tuple[Sequence[mp.mpf], mp.mpf]


def fit(f: Function, lo: mp.mpf, hi: mp.mpf, degree: int, weight: Function | None = None, nodes: int = 80) -> Fit:
    """Coefficients c_0 … c_degree of the polynomial that is nearest to f on [lo, hi], the error weighted by weight(x); and the largest weighted error."""
    weight = weight or (lambda x: mp.mpf(1))
    xs = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / nodes) for k in range(nodes)]
    ws = [weight(x) for x in xs]
    extra = [mp.mpf(1)] * nodes
    for _ in range(30):  # Lawson's iteration turns least squares into minimax
        a = mp.matrix(nodes, degree + 1)
        b = mp.matrix(nodes, 1)
        for i, x in enumerate(xs):
            s = ws[i] * mp.sqrt(extra[i])
            for j in range(degree + 1):
                a[i, j] = s * x**j
            b[i] = s * f(x)
        c = mp.lu_solve(a, b)
        errors = [abs(w * (f(x) - mp.polyval([c[j] for j in range(degree, -1, -1)], x))) for x, w in zip(xs, ws, strict=True)]
        extra = [e * r for e, r in zip(extra, errors, strict=True)]
        total = sum(extra) / nodes
        extra = [e / total for e in extra]
    return [c[j] for j in range(degree + 1)], max(errors)


def show(name: str, fitted: Fit, single: bool = True) -> None:
    """Prints the coefficients as they stand in the source, with the error."""
    coefficients, error = fitted
    print(f"// {name}: error {mp.nstr(error, 3)}")
    print("  " + ", ".join((f"{np.float32(float(c))!r}".replace("np.float32(", "").rstrip(")") + "f") if single else repr(float(c)) for c in coefficients))


def off_zero(f: Function, at_zero: mp.mpf) -> Function:
    """f, with its limit where the formula divides zero by zero."""
    return lambda x: at_zero if abs(x) < mp.mpf(10) ** -15 else f(x)


half_ln2 = mp.log(2) / 2 * mp.mpf("1.01")
show("exp: (e^r - 1 - r) / r^2", fit(off_zero(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2), -half_ln2, half_ln2, 5, lambda r: abs(r) + mp.mpf("0.02")))
lo, hi = mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1
show(
    "log1p: (log(1+f) - f + f^2/2) / f^3",
    fit(off_zero(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mp.mpf(1) / 3), lo, hi, 8, lambda f: f * f + mp.mpf("0.003")),
)
show(
    "sin: (sin r - r) / r^3 in r^2",
    fit(
        off_zero(lambda s: (mp.sin(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3, -mp.mpf(1) / 6),
        mp.mpf(10) ** -20,
        (mp.pi / 4) ** 2 * mp.mpf("1.01"),
        3,
        lambda s: s + mp.mpf("0.01"),
    ),
)
show(
    "cos: (cos r - 1 + r^2/2) / r^4 in r^2",
    fit(
        off_zero(lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, mp.mpf(1) / 24),
        mp.mpf(10) ** -4,
        (mp.pi / 4) ** 2 * mp.mpf("1.01"),
        3,
        lambda s: s * s + mp.mpf("0.01"),
    ),
)
split = mp.mpf("0.921875")
show("erf: (erf(x) - x) / x in x^2", fit(off_zero(lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, 2 / mp.sqrt(mp.pi) - 1), mp.mpf(10) ** -20, split**2, 6))
show("erf: -log(erfc(x)) in x", fit(lambda x: -mp.log(mp.erfc(x)), split * mp.mpf("0.99"), mp.mpf("3.95"), 8, lambda x: mp.erfc(x)))
show(
    "log2: log2(m) / s in s^2, s = (m-1)/(m+1)",
    fit(
        off_zero(lambda q: 2 * mp.atanh(mp.sqrt(q)) / mp.sqrt(q) / mp.log(2), 2 / mp.log(2)),
        mp.mpf(10) ** -20,
        ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.01"),
        6,
    ),
    single=False,
)
show("exp2: 2^r", fit(lambda r: mp.mpf(2) ** r, -mp.mpf("0.505"), mp.mpf("0.505"), 8), single=False)
print("// 2/pi scaled by 2^(2k), the multiples of 2^25 dropped: first 28 bits and the rest, for k = 0 …")
mp.mp.prec = 400
rows = []
for k in range(65):
    c = mp.mpf(2) / mp.pi * mp.mpf(2) ** (2 * k)
    c -= mp.floor(c / 2**25) * 2**25
    high = mp.floor(c * 8) / 8
    rows.append(f"{{{float(high).hex()}, {float(c - high).hex()}}}".replace("0000000p", "p").replace("0000p", "p"))
print(", ".join(rows))
