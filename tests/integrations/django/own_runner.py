"""Django's runner, without some of the tests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from unittest import TestResult, TestSuite

from django.db import connection
from django.test.runner import DiscoverRunner
from django.test.utils import iter_test_cases


class Runner(DiscoverRunner):
    def __init__(self, without: Collection[str], **options: Any) -> None:
        super().__init__(**options)
        self._without = without
        self.left_out: set[str] = set()
        self.ran = 0

    @property
    def database(self) -> str:
        return str(connection.display_name)

    def build_suite(self, *args: object, **kwargs: object) -> TestSuite:
        suite = super().build_suite(*args, **kwargs)
        kept = []
        for test in iter_test_cases(suite):
            name = test.id().removeprefix("tasks.")
            if name in self._without:
                self.left_out.add(name)
            else:
                kept.append(test)
        made: TestSuite = type(suite)(kept)
        return made

    def suite_result(self, suite: TestSuite, result: TestResult, **kwargs: object) -> int:
        self.ran = result.testsRun
        return int(super().suite_result(suite, result, **kwargs))
