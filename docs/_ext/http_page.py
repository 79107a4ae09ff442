"""The HTTP interface as one page of Markdown, from the service's own OpenAPI description."""

from typing import Any

from dmn4.web.app import create_app

Schema = dict[str, Any]


def http_page() -> str:
    """Every request, then every object that requests and answers are made of."""
    described = create_app().openapi()
    schemas = described["components"]["schemas"]
    requests = [request(path, verb, about, schemas) for path, verbs in described["paths"].items()
                for verb, about in verbs.items()]
    objects = [object_table(name, schema) for name, schema in schemas.items()
               if not name.startswith("Body_") and "properties" in schema]
    intro = ("Everything that the page does can be done over HTTP. The service describes itself at\n"
             "`/api/openapi.json`, from which this page is generated; [the guide](../../guides/service_http.md)\n"
             "has examples.")
    return "\n\n".join(["# HTTP interface", intro, "## Requests", *requests, "## Errors", errors(described),
                        "## Objects", *objects]) + "\n"


def request(path: str, verb: str, about: Schema, schemas: Schema) -> str:
    """One request: what it does, what it takes, what it answers."""
    rows = [(f"`{one['name']}`", one["in"], kind(one["schema"]), one.get("description", ""))
            for one in about.get("parameters", [])]
    rows += [(f"`{name}`", "form", kind(schema), schema.get("description", ""))
             for name, schema in form(about, schemas).items()]
    parts = [f"### {verb.upper()} {path}", about.get("description", "")]
    if rows:
        parts.append("\n".join(["| Field | In | Type | What |", "|---|---|---|---|",
                                *(f"| {' | '.join(row)} |" for row in rows)]))
    return "\n\n".join([*parts, answer(about)])


def form(about: Schema, schemas: Schema) -> dict[str, Schema]:
    """The form fields of a request."""
    content = about.get("requestBody", {}).get("content", {})
    schema: Schema = next(iter(content.values()), {}).get("schema", {})
    fields: dict[str, Schema] = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema).get("properties", {})
    return fields


def answer(about: Schema) -> str:
    """What a successful request answers, and with which status."""
    status, found = next((code, one) for code, one in about["responses"].items() if code < "300")
    kinds = [kind(one["schema"]) if media == "application/json" else f"`{media}`"
             for media, one in found.get("content", {}).items()]
    return f"Answers {status}{': ' if kinds else ''}{' or '.join(kinds)}."


def errors(described: Schema) -> str:
    """The statuses of errors and their reasons."""
    statuses = {code: one["description"] for verbs in described["paths"].values() for about in verbs.values()
                for code, one in about["responses"].items() if code >= "400"}
    rows = [f"| {code} | {reason} |" for code, reason in sorted(statuses.items())]
    return "\n".join(["Every error is one `Problem`.", "", "| Status | Reason |", "|---|---|", *rows])


def object_table(name: str, schema: Schema) -> str:
    """The fields of an object."""
    rows = [f"| `{field}` | {kind(one)} | {one.get('description', '')} |"
            for field, one in schema["properties"].items()]
    return "\n".join([f"### {name}", "", schema.get("description", ""), "", "| Field | Type | What |", "|---|---|---|",
                      *rows])


def kind(schema: Schema) -> str:
    """A type in words: "list of `Pair`"."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return "file"
    return str(schema.get("type", "anything"))
