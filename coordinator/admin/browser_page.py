"""The browser page: its start, which index.py gives to browsers in place of JSON, and its files under `/page/`.

The policy lets it load and run its own files only, and be framed by nobody. Everything else that it shows it asks of the other
endpoints, as any client.
"""

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request, Response
from coordinator.admin.server_view import ServerView
from coordinator.page.files import FOLDER, text_of

POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


def wants_page(request: Request) -> bool:
    """Whether a browser asks for something to show, rather than a program for JSON."""
    return "text/html" in request.headers.get("accept", "")


def page() -> Response:
    """The page itself."""
    return _response("index.html")


def page_file(_server: ServerView, request: Request) -> Response:
    """A file that the page loads.

    Raises RefusedRequest: 404 the page has no such file.
    """
    name = request.parameters["name"]
    if name not in {path.name for path in FOLDER.iterdir()}:
        raise RefusedRequest(404, "the page has no such file")
    return _response(name)


def _response(name: str) -> Response:
    kind = _TYPES[name[name.rindex(".") :]]
    headers = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
    return Response(body=text_of(name).encode(), content_type=f"{kind}; charset=utf-8", headers=headers)


ENDPOINTS = (
    Endpoint(
        "GET", "/page/{name}", "get a file of the browser page", page_file, name="getPageFile", refusals=(404,),
        content_types=tuple(_TYPES.values()),
    ),
)  # fmt: skip
