from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [path("orders", views.orders), path("admin/", admin.site.urls)]
