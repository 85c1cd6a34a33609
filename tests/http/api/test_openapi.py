"""The document describes what the API does: every route, every answer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rowcall import Rowcall
from rowcall.http.api.openapi import document
from rowcall.http.api.table import ENDPOINTS
from tests.docs.pages import ROOT
from tests.http.client import Client

DOCUMENT = document(ENDPOINTS, "")
REFERENCES = re.compile(r"'#/components/schemas/(\w+)'")


def test_every_endpoint_is_described() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    others = {
        ("GET", path) for path in ("/api/events", "/api/jobs/{id}/streams/{name}", "/healthz", "/readyz", "/metrics")
    }
    assert described == {(one.method, f"/api{one.template}") for one in ENDPOINTS} | others
    names = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    assert all(one["summary"].endswith(".") for methods in DOCUMENT["paths"].values() for one in methods.values())


def test_every_reference_leads_somewhere() -> None:
    assert set(REFERENCES.findall(str(DOCUMENT))) <= DOCUMENT["components"]["schemas"].keys()
    assert "lease" not in DOCUMENT["components"]["schemas"]["Job"]["properties"]


def test_the_document_is_served_with_its_prefix(client: Client) -> None:
    found = client.get("/api/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    assert found["servers"] == [{"url": "/"}]


def fits(schema: dict[str, Any], value: object, at: str = "$") -> list[str]:
    """Return where a value does not fit its schema: what our schemas use of JSON Schema."""
    if "$ref" in schema:
        return fits(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, at)
    if "anyOf" in schema:
        return [] if any(not fits(one, value, at) for one in schema["anyOf"]) else [f"{at}: {value!r}"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r}"]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
    kind = schema.get("type")
    if kind == "number":
        return [] if isinstance(value, int | float) else [f"{at}: {value!r}"]
    if kind is not None and not isinstance(value, kinds[kind]):
        return [f"{at}: {value!r} is not {kind}"]
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        missing = [f"{at}.{name} is missing" for name in schema.get("required", []) if name not in value]
        unknown = [f"{at}.{name} is unknown" for name in value if name not in known and "properties" in schema]
        inner = [line for name, one in value.items() for line in fits(known.get(name, more or {}), one, f"{at}.{name}")]
        return missing + unknown + inner
    if isinstance(value, list):
        return [
            line for number, one in enumerate(value) for line in fits(schema.get("items", {}), one, f"{at}[{number}]")
        ]
    return []


@pytest.mark.parametrize("path", [one.template for one in ENDPOINTS if not one.changes])
def test_answers_fit_the_document(client: Client, filled: Rowcall, path: str) -> None:
    filled.add_schedule("nightly", "greet", {"name": "Ann"}, every=3600)
    filled.pause("mail")
    assert [filled.batch("one").id, filled.batch("two").id] == [1, 2]
    answer = client.get(f"/api{path.format(id=2)}")
    assert answer.status_code == 200
    schema = DOCUMENT["paths"][f"/api{path}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert fits(schema, answer.json()) == []


def test_problems_have_what_the_document_says(client: Client) -> None:
    assert client.get("/api/jobs/99").json().keys() >= DOCUMENT["components"]["schemas"]["Problem"]["properties"].keys()


def test_the_page_lists_every_endpoint() -> None:
    page = (ROOT / "docs" / "http-api.md").read_text()
    assert set(re.findall(r"`([A-Z]+ /api/[^`]+)`", page)) - {
        "GET /api/openapi.json",
        "GET /api/events",
        "GET /api/jobs/{id}/streams/{name}",
    } == {f"{one.method} /api{one.template}" for one in ENDPOINTS}
