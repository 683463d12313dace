"""The command line: make one call, and say what went wrong."""

import os
import sys

from cyclopts import CycloptsError, UnusedCliTokensError

from qlrstudy.cli import console
from qlrstudy.cli.commands import app


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 for done, 1 if not all was or nobody reads on, 2 for a mistake, 130 if it was
        interrupted.
    """
    # XLA, which looks only as it is loaded, calls it an error that a program out of the
    # cache names features of the machine that made it, and that no machine lists.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(
            given, exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has seen enough, `head` say; Python would try again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except CycloptsError as error:
        console.say(f"qlrstudy: error: {_mistake(error)}")
        return 2
    except Exception as error:
        if not _is_explained(error):
            raise
        console.say(f"qlrstudy: error: {error}")
        return 2
    return code or 0  # none of a command that cyclopts has itself, such as `--help`


def _mistake(error: CycloptsError) -> str:
    """What is wrong with the arguments, and where to read of them."""
    said = str(error).split(" Available commands:")[0].rstrip(".")
    if isinstance(error, UnusedCliTokensError):
        extra = " ".join(error.unused_tokens or ())
        said = f"more arguments than the command has: {extra}"
    command = " ".join(["qlrstudy", *(error.command_chain or ())])
    return f"{said} (see `{command} --help`)"


def _is_explained(error: Exception) -> bool:
    """Whether the message alone tells a user what to do; loaded once there is one."""
    from qlrstudy.data.errors import DataError
    from qlrstudy.store.files import StoreError

    return isinstance(error, ValueError | DataError | StoreError)
