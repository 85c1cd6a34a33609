"""The dashboard: `path("jobs/", include("rowcall.django.urls"))`."""

from django.core.exceptions import ImproperlyConfigured
from django.urls import path

try:
    from rowcall.integrations.django.dashboard import dashboard
except ModuleNotFoundError as error:
    raise ImproperlyConfigured(f"rowcall.django.urls needs {error.name}: pip install 'rowcall[http]'") from error

app_name = "rowcall"
urlpatterns = [path("", dashboard, name="dashboard"), path("<path:path>", dashboard)]

__all__ = ["app_name", "urlpatterns"]
