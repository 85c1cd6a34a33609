"""The dashboard: `path("jobs/", include("rowcall.django.urls"))`."""

from django.urls import path

from rowcall.integrations.django.dashboard import dashboard

app_name = "rowcall"
urlpatterns = [path("", dashboard, name="dashboard"), path("<path:path>", dashboard)]

__all__ = ["app_name", "urlpatterns"]
