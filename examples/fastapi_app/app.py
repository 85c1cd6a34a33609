"""Sign up and get a welcome mail: the user and the mail are written in one transaction."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import String, make_url, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowcall import Binding, Context, Rowcall
from rowcall.fastapi import RowcallTasks, add_problem_details, jobs_in

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://… or mysql://…
RUN_WORKER = os.environ.get("RUN_WORKER", "yes") == "yes"

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
async def database(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


async def get_session() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


app = FastAPI(lifespan=jobs.lifespan_for_app(worker=RUN_WORKER, lifespan=database))
add_problem_details(app)  # JobNotFound is a 404, and so on
DatabaseSession = Annotated[AsyncSession, Depends(get_session)]
SessionJobs = Annotated[Binding, Depends(jobs_in(jobs, get_session))]


class SignUp(BaseModel):
    name: str
    address: str


@app.post("/sign-up", status_code=201)
async def sign_up(form: SignUp, session: DatabaseSession, bound: SessionJobs) -> dict[str, int]:
    job = await bound(welcome).aenqueue(form.address)
    session.add(User(address=form.address, name=form.name))
    try:
        await session.commit()
    except IntegrityError:
        raise HTTPException(409, "that name or address is taken") from None  # no job was written
    return {"job": job.id}


@app.get("/users")
async def users(session: DatabaseSession, background: RowcallTasks) -> dict[str, int]:
    """Return how many welcome mails each user got."""
    background.add_task(count_visit, "users")  # a job: it runs even if the app is restarted now
    return {user.address: user.welcomes for user in await session.scalars(select(User))}


@app.get("/jobs/{job_id}")
async def job(job_id: int) -> str:
    return (await jobs.aget(job_id)).status
