# examples/fastapi_app.py
from contextlib import asynccontextmanager

from fastapi import FastAPI

from dutiful import Scheduler

seen = []


async def refresh():
    seen.append("fresh")


def make_app(**settings):
    @asynccontextmanager
    async def lifespan(app):
        scheduler = Scheduler(**settings)
        await scheduler.initialize([("refresh", "* * * * *", refresh, 60)])
        try:
            yield
        finally:
            await scheduler.stop()

    app = FastAPI(lifespan=lifespan)

    @app.get("/seen")
    async def show():
        return seen

    return app


app = make_app(store="sqlite:state.db")
