"""The extension of Flask: configuration, and the app's context around handlers."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask, current_app, g, has_app_context

import rowcall.flask as rowcall_flask
from rowcall import InvalidOption, Rowcall
from rowcall.flask import RowcallFlask
from rowcall.testing import clean_queue


def app_with(**config: object) -> Flask:
    app = Flask("shop")
    app.config.update(config)
    return app


def test_handlers_run_in_the_context_of_the_app(url: str) -> None:
    app, ended = app_with(ROWCALL_URL=url, ROWCALL_DEFAULT_QUEUE="web"), list[bool]()
    rowcall = RowcallFlask(app)

    @app.teardown_appcontext
    def end(error: BaseException | None) -> None:
        ended.append("asked" in g)

    @rowcall.jobs.task
    def name() -> str:
        g.asked = True
        return current_app.name

    @rowcall.jobs.task
    async def aname() -> str:
        g.asked = True
        return current_app.name

    with rowcall.jobs as jobs:
        written = [name.enqueue(), aname.enqueue()]
        assert [job.queue for job in written] == ["web", "web"]
        jobs.drain(raise_errors=True)
        assert [jobs.get(job).result for job in written] == ["shop", "shop"]
    assert ended == [True, True]
    assert not has_app_context()
    assert app.extensions["rowcall"] is rowcall


def test_a_factory_may_be_called_again_with_the_same_options(tmp_path: Path) -> None:
    rowcall = RowcallFlask()

    @rowcall.jobs.task
    def name() -> str:
        return current_app.config["NAME"]  # type: ignore[no-any-return]

    def create_app(name: str, folder: str) -> Flask:
        app = app_with(NAME=name, ROWCALL_URL=f"sqlite:///{tmp_path}/{folder}.db")
        rowcall.init_app(app)
        return app

    for number in "12":
        create_app(number, "app")
        with rowcall.jobs as jobs:
            job = name.enqueue()
            jobs.drain(raise_errors=True)
            assert jobs.get(job).result == number  # the latest app
    with pytest.raises(InvalidOption, match="configure was already called"):
        create_app("3", "other")
    with clean_queue(rowcall.jobs):
        create_app("4", "other")  # in tests, each may have another
        assert name.enqueue().id == 1
    assert not (tmp_path / "other.db").exists()


def test_the_queue_of_the_current_app(tmp_path: Path) -> None:
    app = app_with(ROWCALL_URL=f"sqlite:///{tmp_path}/app.db")
    rowcall = RowcallFlask(app)
    with app.app_context():
        assert rowcall_flask.jobs is rowcall.jobs
    with app_with().app_context(), pytest.raises(InvalidOption, match=r"has no RowcallFlask: call RowcallFlask\(app\)"):
        rowcall_flask.jobs  # noqa: B018
    assert not hasattr(rowcall_flask, "job")


def test_a_queue_that_the_app_already_has(tmp_path: Path) -> None:
    jobs = Rowcall(tmp_path / "app.db")
    rowcall = RowcallFlask(app_with(), jobs)
    assert rowcall.jobs is jobs
    with pytest.raises(InvalidOption, match=r"got its URL from Rowcall\(url\)"):
        rowcall.init_app(app_with(ROWCALL_URL="sqlite:///other.db"))


def test_wrong_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOption, match=r"unknown option 'default_queu' \(did you mean 'default_queue'\?\)"):
        RowcallFlask(app_with(ROWCALL_DEFAULT_QUEU="web"))
    with pytest.raises(InvalidOption, match="must be a Rowcall, got 3"):
        RowcallFlask(jobs=3)  # type: ignore[arg-type]
    app = app_with()
    RowcallFlask(app)
    with pytest.raises(InvalidOption, match="'shop' has another RowcallFlask already"):
        RowcallFlask(app)
    rowcall = RowcallFlask(jobs=Rowcall(tmp_path / "app.db"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLASK_APP", raising=False)

    @rowcall.jobs.task
    def name() -> None: ...

    with rowcall.jobs:
        name.enqueue()
        with pytest.raises(InvalidOption, match=r"no Flask app was found: start the worker with flask --app … rowcall"):
            rowcall.jobs.drain(raise_errors=True)
