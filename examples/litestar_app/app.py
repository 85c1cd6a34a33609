"""Sign up and get a welcome mail: the user and the mail are written in one transaction."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from litestar import Litestar, get, post
from litestar.di import NamedDependency, Provide
from litestar.exceptions import ClientException
from litestar.params import FromPath
from sqlalchemy import String, make_url, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowcall import Context, Rowcall, RowcallError
from rowcall.litestar import Tasks, problem_details, rowcall_tasks

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…

jobs = Rowcall(DATABASE_URL)

drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+aiomysql"}
url = make_url(DATABASE_URL)
engine = create_async_engine(url.set(drivername=drivers[url.drivername]))
new_session = async_sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    address: Mapped[str] = mapped_column(String(200), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    welcomes: Mapped[int] = mapped_column(default=0)


@jobs.task(queue="mail")
async def welcome(ctx: Context, address: str) -> None:
    print(f"Welcome, {address}", flush=True)  # a real app sends its mail here; this line may run twice
    async with new_session.begin() as session:
        await session.execute(update(User).where(User.address == address).values(welcomes=User.welcomes + 1))
        await ctx.acomplete("welcomed", connection=session)  # the count and the end of the job: both or neither


@jobs.task
async def count_visit(page: str) -> None:
    print(f"Visited {page}", flush=True)


@asynccontextmanager
async def database(_: Litestar) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


async def get_session() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


@dataclass
class SignUp:
    name: str
    address: str


@post("/sign-up")
async def sign_up(data: SignUp, session: NamedDependency[AsyncSession]) -> dict[str, int]:
    job = await jobs.bind(session)(welcome).aenqueue(data.address)
    session.add(User(address=data.address, name=data.name))
    try:
        await session.commit()
    except IntegrityError:
        raise ClientException("that name or address is taken", status_code=409) from None  # no job was written
    return {"job": job.id}


@get("/users")
async def users(session: NamedDependency[AsyncSession], background: NamedDependency[Tasks]) -> dict[str, int]:
    """Return how many welcome mails each user got."""
    background.add_task(count_visit, "users")  # a job: it runs even if the app is restarted now
    return {user.address: user.welcomes for user in await session.scalars(select(User))}


@get("/jobs/{job_id:int}")
async def job(job_id: FromPath[int]) -> str:
    return (await jobs.aget(job_id)).status


app = Litestar(
    [sign_up, users, job],
    dependencies={"session": Provide(get_session), "background": Provide(rowcall_tasks)},
    lifespan=[jobs.lifespan_for_app(worker=True, lifespan=database)],
    exception_handlers={RowcallError: problem_details},  # JobNotFound is a 404, and so on
)
