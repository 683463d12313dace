"""`python -m qlrstudy`."""

import sys

from qlrstudy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
