"""Another name of `tests.commands`."""

import sys

from tests import commands

sys.modules[__name__] = commands
