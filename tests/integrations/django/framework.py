"""Django's Tasks framework, under the name that this Django has for it."""

try:
    from django.tasks import default_task_backend, task, task_backends
    from django.tasks.exceptions import InvalidTask
except ModuleNotFoundError:
    from django_tasks import default_task_backend, task, task_backends
    from django_tasks.exceptions import InvalidTaskError as InvalidTask

__all__ = ["InvalidTask", "default_task_backend", "task", "task_backends"]
