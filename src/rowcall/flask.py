"""Flask. See docs/flask.md."""

from rowcall.integrations.flask.extension import RowcallFlask
from rowcall.integrations.flask.extension import attribute as __getattr__

__all__ = ["RowcallFlask", "__getattr__"]
