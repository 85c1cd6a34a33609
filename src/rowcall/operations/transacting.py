"""Enqueueing many in one transaction."""

from __future__ import annotations

from rowcall.operations.enqueue import Enqueueing
from rowcall.operations.transaction import Transaction


class Transacting(Enqueueing):
    def transaction(self) -> Transaction:
        """A block whose jobs are all written at its end, or none of them; `async with` works too.

            with jobs.transaction():
                for order in orders:
                    charge.enqueue(order.id)

        A block inside a block is a savepoint: an exception that leaves the inner one undoes only that.
        """
        return Transaction(self)
