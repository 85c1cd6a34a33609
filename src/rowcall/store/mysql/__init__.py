"""SQL for MariaDB and MySQL."""
