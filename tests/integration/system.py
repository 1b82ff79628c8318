"""Another name of `tests.service`."""

import sys

from tests import service

sys.modules[__name__] = service
