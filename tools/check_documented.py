"""Gate: every class, enum and function that a header of src/ offers has a comment.

A comment counts for all declarations of its block of lines (a blank line ends a block). What says all by itself needs none: constructors, destructors,
operators, overrides, defaulted and deleted members, data members, and functions whose whole body stands on the line of their name. Nor does what is private
or in a namespace named `detail`.
"""

import dataclasses
import pathlib
import re

import tree

# The meaning of every elementwise op, written as the text that is also put before each kernel: the bodies are the documentation.
EXEMPT = ("src/ir/scalar.h",)

KEYWORDS = ("if", "for", "while", "switch", "return", "using", "typedef", "friend", "static_assert", "extern", "public", "private", "protected", "THALWEG_")
TYPE = re.compile(
    r"^(?:template\s*<.*?>\s*)?(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?([A-Za-z_]\w*)(?![\w:]*\s*\()", re.DOTALL
)
FUNCTION = re.compile(r"([~A-Za-z_]\w*)\s*\(")
ONE_LINE = re.compile(r"\{.*\}\s*$")
BLANKED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""", re.DOTALL | re.MULTILINE
)


@dataclasses.dataclass
class Scope:
    """One open brace: what it belongs to and whether declarations in it are offered to others."""

    kind: str  # "namespace", "class" or "body"
    name: str = ""
    offered: bool = True


@dataclasses.dataclass
class Reader:
    """Walks one header's text, with comments and literals blanked out, and collects what lacks a comment."""

    path: pathlib.Path
    lines: list[str]
    commented: list[bool]  # by line: has a comment on it
    scopes: list[Scope] = dataclasses.field(default_factory=lambda: [Scope("namespace")])
    complaints: list[str] = dataclasses.field(default_factory=list)

    def documented(self, first: int, last: int) -> bool:
        """Whether a comment stands on the lines first..last or in their block."""
        while first > 0 and self.lines[first - 1].strip():
            first -= 1
        while last + 1 < len(self.lines) and self.lines[last + 1].strip():
            last += 1
        return any(self.commented[first : last + 1])

    def declaration(self, text: str, first: int, last: int, opens: bool) -> None:
        """Handles one declaration; `opens` when it ends in a brace rather than a semicolon."""
        scope = self.scopes[-1]
        text = re.sub(r"^(public|private|protected)\s*:", "", text.strip()).strip()
        text = re.sub(r"^(?:\[\[[^\]]*\]\]\s*)+", "", text)
        named = TYPE.match(text)
        if opens and re.match(r"^(inline\s+)?namespace\b", text):
            name = text.split()[-1] if text.split()[-1] != "namespace" else ""
            self.scopes.append(Scope("namespace", name, scope.offered and name != "detail"))
            return
        if scope.kind == "body" or not text:
            if opens:
                self.scopes.append(Scope("body"))
            return
        if named and opens:
            if scope.offered and not self.documented(first, last):
                self.complaints.append(f"{self.path}:{first + 1}: {named.group(1)} has no comment")
            is_enum = re.match(r"^enum\b", text) is not None
            is_class = re.search(r"\bclass\b", text.split(named.group(1))[0]) is not None
            self.scopes.append(Scope("body" if is_enum else "class", named.group(1), scope.offered and not is_class))
            return
        if not named and scope.offered and not (opens and first == last and ONE_LINE.search(self.lines[last])):
            self.function(text, first, last)
        if opens:
            self.scopes.append(Scope("body"))

    def function(self, text: str, first: int, last: int) -> None:
        """Complains when `text` declares a function that should have a comment."""
        head = re.sub(r"^template\s*<[^()]*?>\s*(requires\b[^;{]*?\)\s*)?", "", text)
        match = FUNCTION.search(head)
        if not match or head.startswith(KEYWORDS) or "=" in head[: match.start()] or "operator" in head:
            return
        name = match.group(1)
        if name.startswith("~") or name == self.scopes[-1].name or name == "decltype" or re.search(r"\boverride\b|=\s*(default|delete)\s*$", head):
            return
        if re.fullmatch(r"[A-Z0-9_]+", name) or not head[: match.start()].strip():
            return  # a macro, or no declaration
        if not self.documented(first, last):
            self.complaints.append(f"{self.path}:{first + 1}: {name}() has no comment")

    def read(self, text: str) -> None:
        """Splits the text into declarations."""
        start, line, first, parentheses = 0, 0, 0, 0
        begun = False
        for position, letter in enumerate(text):
            if letter == "\n":
                line += 1
            if not begun and not letter.isspace():
                begun, first, start = True, line, position
            if letter in "([":
                parentheses += 1
            elif letter in ")]":
                parentheses -= 1
            if parentheses or letter not in ";{}:":
                continue
            chunk = text[start:position]
            if letter == ":":
                if chunk.strip() in ("public", "private", "protected"):
                    scope = self.scopes[-1]
                    scope.offered = chunk.strip() == "public" and all(outer.offered for outer in self.scopes[:-1])
                    begun = False
                continue
            if letter == "{":
                self.declaration(chunk, first, line, opens=True)
            elif letter == ";":
                self.declaration(chunk, first, line, opens=False)
            elif len(self.scopes) > 1:
                self.scopes.pop()
            begun = False


def without_comments(source: str) -> tuple[str, list[bool]]:
    """The text with comments, literals and preprocessor lines blanked out (same lines), and which lines had a comment."""
    commented = [False] * (source.count("\n") + 2)

    def blank(match: re.Match[str]) -> str:
        text = match.group(0)
        if text.startswith(("//", "/*")):
            begin = source.count("\n", 0, match.start())
            for line in range(begin, begin + text.count("\n") + 1):
                commented[line] = True
        return re.sub(r"[^\n]", " ", text)

    return BLANKED.sub(blank, source), commented


def complaints_of(path: pathlib.Path, source: str) -> list[str]:
    """What lacks a comment in a header."""
    text, commented = without_comments(source)
    reader = Reader(path, source.splitlines(), commented)
    reader.read(text)
    if not source.startswith("//"):
        reader.complaints.insert(0, f"{path}:1: the first line does not say what the file is")
    return reader.complaints


def main() -> None:
    """Looks at all headers, and at the first line of every source."""
    headers = [path for path in tree.files("src/*.h") if str(path) not in EXEMPT]
    complaints = [complaint for path in headers for complaint in complaints_of(path, (tree.ROOT / path).read_text())]
    for path in tree.files("src/*.cpp", "src/*.def", "tests/*.cpp", "tests/*.h", "bench/*.cpp"):
        if not (tree.ROOT / path).read_text().startswith("//"):
            complaints.append(f"{path}:1: the first line does not say what the file is")
    tree.finish(complaints, len(headers), "headers for undocumented symbols")


if __name__ == "__main__":
    main()
