"""`qlrstudy`, and `python -m qlrstudy`."""

import os
import sys


def main() -> int:
    """Quieten XLA, which looks only as it is loaded, then run the command line."""
    # It warns of each compiled program that it takes from the cache.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from qlrstudy import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
