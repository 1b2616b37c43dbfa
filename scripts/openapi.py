"""Writes the document of the HTTP interface to where the documentation has it."""

import json
from pathlib import Path

from dutiful.web.app import openapi_document

PATH = Path(__file__).resolve().parents[1] / "docs/reference/openapi.json"

if __name__ == "__main__":
    PATH.write_text(json.dumps(openapi_document(), indent=1) + "\n", encoding="utf-8")
