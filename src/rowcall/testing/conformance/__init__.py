"""The conformance kit: what every database must do to carry Rowcall. A new database is done when it passes.

A module of tests binds it to a database with one fixture, which opens an empty store:

    from rowcall.testing.conformance.suite import *

    @pytest.fixture
    def new_store(tmp_path: Path) -> Callable[[], Store]: ...

A second fixture, `new_migrated_store`, may return copies of a store that has the tables already: that is quicker.
See `rowcall.testing.conformance.store` for what a store is. The cases with several processes start
`python -m rowcall.testing.conformance.program`.
"""
