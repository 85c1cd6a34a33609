"""Makes the tables of the queue, and registers the model of the admin."""

from django.db import migrations, models

from rowcall.integrations.django.models import STATUSES, Moment
from rowcall.integrations.django.tables import make_tables, prefix


class Migration(migrations.Migration):
    initial = True
    operations = (
        migrations.RunPython(make_tables, migrations.RunPython.noop),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("type", models.CharField(max_length=200, verbose_name="task")),
                ("queue", models.CharField(max_length=200)),
                ("status", models.CharField(choices=STATUSES, max_length=20)),
                ("priority", models.IntegerField()),
                ("attempt", models.IntegerField(verbose_name="attempts")),
                ("max_attempts", models.IntegerField()),
                ("run_at", Moment()),
                ("created_at", Moment()),
                ("started_at", Moment(null=True)),
                ("finished_at", Moment(null=True)),
                ("worker", models.TextField(null=True)),
                ("error_code", models.TextField(null=True)),
                ("error_detail", models.TextField(null=True)),
                ("key", models.TextField(null=True)),
            ],
            options={"db_table": f"{prefix()}jobs", "ordering": ("-id",), "managed": False},
        ),
    )
