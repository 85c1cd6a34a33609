"""Django: a queue in a database of `DATABASES`. Users import `rowcall.django`."""
