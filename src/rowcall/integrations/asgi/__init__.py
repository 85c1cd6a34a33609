"""What FastAPI, Starlette and Litestar have in common."""
