"""CPU time of commands that should answer at once.

    python benchmarks/command_line.py [STORE]

Runs each as a user would, in a process of its own, and prints the least CPU time of
five, with its ratio to that of a Python that does nothing. `status` is of an empty
directory, unless a store is given.
"""

import resource
import subprocess
import sys
import tempfile

COMMANDS = (
    ["--help"],
    ["run", "--help"],
    ["--version"],
    ["tasks"],
    ["algorithms"],
    ["studies"],
    ["data", "list"],
)


def seconds(command: list[str]) -> float:
    """CPU time of one process, its children's included."""

    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def once() -> float:
        begin = children()
        subprocess.run(command, check=True, capture_output=True)
        return children() - begin

    return min(once() for _ in range(5))


def main() -> None:
    """Print a line for each command."""
    bare = seconds([sys.executable, "-c", ""])
    with tempfile.TemporaryDirectory() as empty:
        status = ["status", *(sys.argv[1:] or [empty])]
        for words in (*COMMANDS, status):
            taken = seconds([sys.executable, "-m", "qlrstudy", *words])
            print(f"{' '.join(words):16.16} {taken:5.2f} s  {taken / bare:5.1f} x bare")


if __name__ == "__main__":
    main()
