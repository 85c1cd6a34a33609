"""Flask. See docs/web.md."""

from rowcall.integrations.flask.extension import RowcallFlask
from rowcall.integrations.flask.extension import attribute as __getattr__

__all__ = ["RowcallFlask", "__getattr__"]
