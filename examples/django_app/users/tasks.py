from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import F

from rowcall import Context, Rowcall
from users.models import User

jobs = Rowcall(settings.DATABASE_URL)


@jobs.task(queue="mail")
def welcome(ctx: Context, address: str) -> None:
    print(f"Welcome, {address}", flush=True)  # a real app sends its mail here; this line may run twice
    try:
        with transaction.atomic():
            User.objects.filter(address=address).update(welcomes=F("welcomes") + 1)
            ctx.complete("welcomed", connection="default")  # the count and the end of the job: both or neither
    finally:
        close_old_connections()  # Django does this after each request, but not after a job
