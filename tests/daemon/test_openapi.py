"""The document of the REST interface: what the page's types are made of is what the daemon serves."""
import json
import os
import pathlib

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "web" / "openapi.json"


def test_the_document_beside_the_page_is_the_daemons(shared):
    served = json.dumps(shared.http("GET", "/api/v1/openapi.json"), indent=1, sort_keys=True) + "\n"
    if os.environ.get("PL_UPDATE"):
        DOCUMENT.write_text(served, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == served, "the interface has changed: PL_UPDATE=1 with this test, then npm run types in web/"
