"""Names from `typing` that Python has only since 3.11."""

import sys

if sys.version_info >= (3, 11):
    from typing import NotRequired as NotRequired
    from typing import Unpack as Unpack
else:
    from typing_extensions import NotRequired as NotRequired
    from typing_extensions import Unpack as Unpack
