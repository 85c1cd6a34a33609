"""Where Django looks for the configuration of the app."""

from rowcall.integrations.django.apps import RowcallConfig

__all__ = ["RowcallConfig"]
