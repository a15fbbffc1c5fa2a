"""The 77 numbered cases of the runtime's design: each has a test named after its number."""

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[2]


def test_every_number_has_a_test() -> None:
    found: set[int] = set()
    for path in [*TESTS.glob("runtime/**/*.cpp"), *TESTS.glob("runtime/**/*.h"), *TESTS.glob("soak/*.cpp")]:
        found |= {int(number) for number in re.findall(r"^TEST(?:_F|_P)?\(\w+, Case(\d+)[a-zA-Z]", path.read_text(), re.MULTILINE)}
    for path in TESTS.glob("python/test_*.py"):
        found |= {int(number) for number in re.findall(r"^def test_case_(\d+)[a-z]?_", path.read_text(), re.MULTILINE)}
    assert sorted(set(range(1, 78)) - found) == []
