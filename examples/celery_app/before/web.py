"""Order a book, and ask how far it is."""

from celery.result import AsyncResult
from flask import Flask, request
from tasks import app as celery_app
from tasks import place_order, recount

app = Flask(__name__)


@app.post("/orders")
def order():
    form = request.get_json()
    result = place_order(form["title"], form["pages"], form["to"])
    return {"id": result.id}, 201


@app.get("/orders/<order_id>")
def status(order_id):
    result = AsyncResult(order_id, app=celery_app)
    return {"state": result.state, "result": result.result if result.successful() else None}


@app.post("/paper")
def paper():
    return {"id": recount.delay(request.get_json()["sheets"]).id}, 201
