from django.urls import path

from users import views

urlpatterns = [path("sign-up", views.sign_up), path("users", views.users)]
