from tests.mysql_server import mysql_server, mysql_url

__all__ = ["mysql_server", "mysql_url"]
