"""`qlrstudy`, and `python -m qlrstudy`."""

import os
import sys


def main() -> int:
    """Run the command line; what reads a store only, without a learning framework."""
    from qlrstudy.cli import report as command

    if sys.argv[1:2] and sys.argv[1] in command.NAMES:
        return command.main()
    # XLA, which looks only as it is loaded, warns of each program out of the cache.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from qlrstudy.cli import main as cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
