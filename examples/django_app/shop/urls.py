from django.contrib import admin
from django.urls import include, path

from shop import views

urlpatterns = [
    path("orders", views.orders),
    path("admin/", admin.site.urls),
    path("jobs/", include("rowcall.django.urls")),  # the dashboard, for staff
]
