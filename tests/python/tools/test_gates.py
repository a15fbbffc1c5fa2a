"""The gates find what they are there to find, and leave good code alone."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_documented  # noqa: E402

GOOD = """// A header.
#pragma once

namespace thalweg {

// What it is.
class Good {
 public:
  Good();
  ~Good();
  int size() const { return size_; }
  // Does something.
  void act(int a);
  void act(double a);

 private:
  void hidden();
  int size_ = 0;
};

// Two alike.
int one(int a), two(int a);
int three(const char* text = "a // b; int undocumented();");  // on its own line

namespace detail {

void internal();

}  // namespace detail
}  // namespace thalweg
"""


def names(source: str) -> list[str]:
    """What the gate on comments complains of."""
    return [complaint.split(" has no comment")[0].split(": ")[-1] for complaint in check_documented.complaints_of(pathlib.Path("x.h"), source)]


def test_documented_headers_pass() -> None:
    assert names(GOOD) == []


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("int bare(int a);", ["bare()"]),
        ("class Bare {\n public:\n\n  void member();\n};", ["Bare", "member()"]),
        ("struct Bare {\n  int a;\n\n  void member();\n};", ["Bare", "member()"]),
        ("enum class Bare { A, B };", ["Bare"]),
        ("template <typename T, int n>\nT bare(T a);", ["bare()"]),
        ("inline int bare(int a) {\n  if (a) return 1;\n  return 2;\n}", ["bare()"]),
        ("[[nodiscard]] std::vector<int> bare(\n    int a);", ["bare()"]),
        ("// Said.\n\nint apart();", ["apart()"]),
        ("class Known;\nusing Fn = void (*)(int);\ninline constexpr int kSize = max(1, 2);", []),
        ("// Said.\nstruct Known {\n  int a = f(1);\n\n  bool operator==(const Known&) const = default;\n  Known(int b);\n};", []),
    ],
)
def test_undocumented_declarations_are_found(declaration: str, expected: list[str]) -> None:
    assert names(f"// A header.\nnamespace thalweg {{\n\n{declaration}\n\n}}\n") == expected


def test_first_line_says_what_the_file_is() -> None:
    assert len(check_documented.complaints_of(pathlib.Path("x.h"), "#pragma once\n")) == 1


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A small repository with two folders, upper over lower, and the gates."""
    for name in ("tree.py", "check_layers.py", "check_headers.py", "check_format.py"):
        target = tmp_path / "tools" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((ROOT / "tools" / name).read_text())
    (tmp_path / "layers.txt").write_text("lower:\nupper: lower\n")
    (tmp_path / ".clang-format").write_text((ROOT / ".clang-format").read_text())
    for folder in ("lower", "upper"):
        (tmp_path / "src" / folder).mkdir(parents=True)
    (tmp_path / "src/lower/a.h").write_text("// A.\n#pragma once\nstruct A {};\n")
    (tmp_path / "src/upper/b.h").write_text('// B.\n#pragma once\n#include "lower/a.h"\nstruct B : A {};\n')
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def run(tree: pathlib.Path, gate: str) -> tuple[int, str]:
    """Runs a gate of the small repository."""
    result = subprocess.run([sys.executable, f"tools/{gate}"], cwd=tree, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_layers(tree: pathlib.Path) -> None:
    assert run(tree, "check_layers.py")[0] == 0
    (tree / "src/lower/c.cpp").write_text('// C.\n#include "upper/b.h"\n')
    status, text = run(tree, "check_layers.py")
    assert status == 1
    assert "src/lower/c.cpp:2: lower may not include upper" in text
    (tree / "src/lower/c.cpp").write_text("// C.\n#include <ATen/core/Tensor.h>\n")
    status, text = run(tree, "check_layers.py")
    assert status == 1
    assert "belongs to the torch device" in text
    (tree / "src/lower/c.cpp").unlink()
    (tree / "layers.txt").write_text("lower: upper\nupper: lower\n")
    status, text = run(tree, "check_layers.py")
    assert status == 1
    assert "not above it" in text


def test_headers_compile_alone(tree: pathlib.Path) -> None:
    assert run(tree, "check_headers.py")[0] == 0
    (tree / "src/upper/c.h").write_text("// C.\n#pragma once\nstd::string text();\n")
    status, text = run(tree, "check_headers.py")
    assert status == 1
    assert "src/upper/c.h does not compile alone" in text


def test_formatting(tree: pathlib.Path) -> None:
    (tree / "src/upper/c.h").write_text("// C.\n#pragma once\nint   f( );\n")
    status, text = run(tree, "check_format.py")
    assert status == 1
    assert "src/upper/c.h is not formatted" in text


def test_set_up_is_quick_when_done() -> None:
    """The second run of the set-up installs nothing and says nothing."""
    result = subprocess.run([str(ROOT / "tools" / "setup")], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
