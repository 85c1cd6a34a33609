"""The queue's logic, once, for every database: generators that yield statements and receive rows."""
