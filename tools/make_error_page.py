"""Writes docs/errors.md from src/support/errors.def; with `--check` says whether it is current."""

import re
import sys

import tree

ROW = re.compile(r'THALWEG_ERROR\((\w+), "([^"]+)", "([^"]+)"\)')
HEAD = """# Errors

Every error of Thalweg is of one of these kinds, and reaches Python as the class named here. A message says first what is wrong, then the values, then what to
do; errors of compiled programs surface at the next barrier (`torch_xla.sync()`, reading a value) with the operation and the Python line that traced it. A
failed step leaves earlier tensors readable.

This page is made from `src/support/errors.def` by `tools/make_error_page.py`.

| Kind | Python class | Meaning |
|---|---|---|
"""


def main() -> None:
    """Writes or checks the page."""
    rows = ROW.findall((tree.ROOT / "src/support/errors.def").read_text())
    text = HEAD + "".join(f"| `{kind}` | `{python}` | {meaning} |\n" for kind, python, meaning in rows)
    page = tree.ROOT / "docs" / "errors.md"
    if "--check" in sys.argv[1:]:
        stale = not page.exists() or page.read_text() != text
        tree.finish(["docs/errors.md is not current: run tools/make_error_page.py"] if stale else [], len(rows), "kinds of error in docs/errors.md")
    page.write_text(text)


if __name__ == "__main__":
    main()
