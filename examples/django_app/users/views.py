import json

from django.db import IntegrityError, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from users.models import User
from users.tasks import welcome


@csrf_exempt
@require_POST
def sign_up(request: HttpRequest) -> JsonResponse:
    form = json.loads(request.body)
    try:
        with transaction.atomic():
            job = welcome.using(connection="default").enqueue(form["address"])
            User.objects.create(address=form["address"], name=form["name"])
    except IntegrityError:
        return JsonResponse({"error": "that name or address is taken"}, status=409)  # no job was written
    return JsonResponse({"job": job.id}, status=201)


def users(request: HttpRequest) -> JsonResponse:
    """Return how many welcome mails each user got."""
    return JsonResponse(dict(User.objects.values_list("address", "welcomes")))
