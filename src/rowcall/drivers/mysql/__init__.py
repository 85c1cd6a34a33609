"""Run plans on MariaDB and MySQL, through a pool of connections."""
