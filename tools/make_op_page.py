"""Writes docs/ops.md from src/ir/ops.def; with `--check` says whether it is current."""

import re
import sys

import tree

ROW = re.compile(r"^THALWEG_(UNARY|BINARY|OP)\s*\((\w+), \"([\w-]+)\", (\w+)(?:, (.+))?\)", re.MULTILINE)
SECTION = re.compile(r"^// ([A-Z][^\n]*?)[.:]?$")
CLASSES = {
    "Any": "all", "Bool": "i1", "Integer": "integers", "BoolInteger": "i1 and integers", "Float": "floats", "FloatComplex": "floats and complex",
    "Numeric": "integers, floats, complex", "Ordered": "all but complex", "SignedNumeric": "signed integers, floats, complex",
}  # fmt: skip
FORMS = {
    "U": "pretty",
    "B": "pretty",
    "F": "pretty",
    "K": "pretty, with keywords",
    "G": "generic",
    "L": "legacy: read, printed and verified only",
    "Func": "func dialect",
}
HEAD = """# Ops

Every op of the IR, with StableHLO's names, attributes and meaning. The reference interpreter (`src/interp`) runs all but the legacy, dynamic and quantized
ones, which are read, printed and verified.

This page is made from `src/ir/ops.def` by `tools/make_op_page.py`.

## Elementwise, by their scalar expression

The expression is C++ over the functions of `src/ir/scalar.h`; the interpreter compiles it and kernels are printed from it, so both give the same bits. 16-bit
and narrower floats compute in float and round once an op.

| Op | Element types | Meaning |
|---|---|---|
"""


def main() -> None:
    """Writes or checks the page."""
    source = (tree.ROOT / "src/ir/ops.def").read_text()
    rows = ROW.findall(source)
    text = HEAD + "".join(f"| `{name}` | {CLASSES[cls]} | `{expression}` |\n" for kind, _, name, cls, expression in rows if kind != "OP")
    body = source[source.index("// Elementwise with operand") :]
    for line in body.splitlines():
        if section := SECTION.match(line):
            text += f"\n## {section[1]}\n\n| Op | Text form |\n|---|---|\n"
        elif row := ROW.match(line):
            text += f"| `{row[3]}` | {FORMS[row[4]]} |\n"
    page = tree.ROOT / "docs" / "ops.md"
    if "--check" in sys.argv[1:]:
        stale = not page.exists() or page.read_text() != text
        tree.finish(["docs/ops.md is not current: run tools/make_op_page.py"] if stale else [], len(rows), "ops in docs/ops.md")
    page.write_text(text)


if __name__ == "__main__":
    main()
