from tests.worker.fixtures import jobs, site

__all__ = ["jobs", "site"]
