from tests.worker.fixtures import jobs, place

__all__ = ["jobs", "place"]
