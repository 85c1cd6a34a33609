"""Sign up and get a welcome mail: the user and the mail are written in one transaction."""

import os

from flask import Blueprint, Flask, current_app, request
from sqlalchemy import String, create_engine, make_url, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from rowcall import Context
from rowcall.flask import RowcallFlask

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…

rowcall = RowcallFlask()
jobs = rowcall.jobs

drivers = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
url = make_url(DATABASE_URL)
engine = create_engine(url.set(drivername=drivers[url.drivername]))
db_session = scoped_session(sessionmaker(engine))
pages = Blueprint("pages", __name__)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    address: Mapped[str] = mapped_column(String(200), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    welcomes: Mapped[int] = mapped_column(default=0)


@jobs.task(queue="mail")
def welcome(ctx: Context, address: str) -> None:
    sender = current_app.config["SENDER"]  # handlers run in the context of the app
    print(f"Welcome, {address}, from {sender}", flush=True)  # a real app sends its mail here; this may happen twice
    with Session(engine) as session, session.begin():
        session.execute(update(User).where(User.address == address).values(welcomes=User.welcomes + 1))
        ctx.complete("welcomed", connection=session)  # the count and the end of the job: both or neither


@pages.post("/sign-up")
def sign_up() -> tuple[dict[str, object], int]:
    form = request.get_json()
    with jobs.bind(db_session):
        job = welcome.enqueue(form["address"])
    db_session.add(User(address=form["address"], name=form["name"]))
    try:
        db_session.commit()
    except IntegrityError:
        return {"error": "that name or address is taken"}, 409  # no job was written
    return {"job": job.id}, 201


@pages.get("/users")
def users() -> dict[str, int]:
    """Return how many welcome mails each user got."""
    return {user.address: user.welcomes for user in db_session.scalars(select(User))}


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(ROWCALL_URL=DATABASE_URL, SENDER="shop@example.com")
    rowcall.init_app(app)
    jobs.migrate()
    Base.metadata.create_all(engine)
    app.register_blueprint(pages)
    app.teardown_appcontext(lambda _: db_session.remove())  # rolls back an open transaction
    return app
