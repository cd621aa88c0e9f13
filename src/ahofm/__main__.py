"""``python -m ahofm``: the command."""

import sys

from ahofm.cli import main

if __name__ == "__main__":
    sys.exit(main())
