"""Sign up and get a welcome mail: the user and the mail are written in one transaction."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import make_url, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowcall import Context, Rowcall

DATABASE_URL = os.environ.get("DATABASE_URL", "sqlite:///app.db")  # or postgresql://user@host/database
WORKER_BESIDE = os.environ.get("WORKER_BESIDE", "yes") == "yes"

jobs = Rowcall(DATABASE_URL)

drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
url = make_url(DATABASE_URL)
engine = create_async_engine(url.set(drivername=drivers[url.drivername]))
new_session = async_sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    address: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    welcomes: Mapped[int] = mapped_column(default=0)


@jobs.task(queue="mail")
async def welcome(ctx: Context, address: str) -> None:
    print(f"Welcome, {address}", flush=True)  # a real app sends its mail here; this line may run twice
    async with new_session.begin() as session:
        await session.execute(update(User).where(User.address == address).values(welcomes=User.welcomes + 1))
        await ctx.acomplete("welcomed", connection=session)  # the count and the end of the job: both or neither


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    await jobs.amigrate()
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    if WORKER_BESIDE:
        async with jobs.worker():
            yield
    else:
        yield
    await engine.dispose()
    jobs.close()


app = FastAPI(lifespan=lifespan)


class SignUp(BaseModel):
    name: str
    address: str


@app.post("/sign-up", status_code=201)
async def sign_up(form: SignUp) -> dict[str, int]:
    try:
        async with new_session.begin() as session:
            job = await welcome.using(connection=session).aenqueue(form.address)
            session.add(User(address=form.address, name=form.name))  # written at the commit, may raise IntegrityError
    except IntegrityError:
        raise HTTPException(409, "that name or address is taken") from None  # no job was written
    return {"job": job.id}


@app.get("/users")
async def users() -> dict[str, int]:
    """Return how many welcome mails each user got."""
    async with new_session() as session:
        return {user.address: user.welcomes for user in await session.scalars(select(User))}
