"""`python -m thalweg memory SNAPSHOT`: who holds what in a memory snapshot."""

import argparse
import pickle
import sys
from typing import Any


class _Plain(pickle.Unpickler):
    """Reads lists, dicts, numbers and texts: a snapshot has nothing else, and a file that names code is none."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a snapshot holds no {module}.{name}")


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m thalweg", description="Tools of the device xla.")
    commands = parser.add_subparsers(required=True)
    memory = commands.add_parser("memory", help="print who holds what in a snapshot made by thalweg.memory.dump or torch.cuda.memory._dump_snapshot")
    memory.add_argument("snapshot")
    options = parser.parse_args()
    from thalweg.memory import report

    try:
        with open(options.snapshot, "rb") as file:
            print(report(_Plain(file).load()))
    except (OSError, pickle.UnpicklingError, EOFError, KeyError, TypeError) as error:
        print(f"thalweg memory: {options.snapshot} is no memory snapshot: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
