"""FastAPI and Starlette: `rowcall.fastapi`."""
