"""The application: the HTTP interface, the page that uses it in a browser, and how every error looks."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.routing import Route

from .. import __version__
from ..errors import InputError
from .authentication import Authentication
from .backbone import ChosenBackbone
from .guard import LOOPBACK, Guard, problem
from .limits import Limits
from .monitoring import Metrics, Monitoring
from .routes import classifiers, health, management
from .service import Service
from .store import Store

PAGE = Path(__file__).parent / "page"
ROUTERS = (classifiers.router, management.router, health.router)
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def create_app(backbone: Any = "efficientnet_lite0", limits: Limits | None = None,
               hosts: Collection[str] | None = LOOPBACK, store: Store | None = None, is_open: bool = True,
               weights: str | None = None) -> FastAPI:
    """The application with this backbone, a name or a module; `hosts` are the names it may be called by, None for any.

    `store`: where classifiers are kept; None: as long as the process lives. `is_open`: as long as there are no tokens
    in the store, everybody may use it.
    """
    limits = limits or Limits()
    store = store or Store(limits=limits)
    service = Service(ChosenBackbone(backbone, weights), limits, store)
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()
        if not store.lasting:
            store.close()

    app = FastAPI(title="dmn4", version=__version__, description="Few-shot classification of pictures, with evidence.",
                  openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan,
                  generate_unique_id_function=lambda route: route.name)
    app.state.service = service
    app.add_middleware(Guard, limits=limits, hosts=hosts, authentication=Authentication(store, is_open))
    app.add_middleware(Monitoring, metrics=metrics)                # the last one added is the outermost
    app.add_exception_handler(AnyHTTPException, tell)
    app.add_exception_handler(RequestValidationError, tell_invalid)
    app.add_exception_handler(InputError, tell_mistake)
    app.add_exception_handler(Exception, tell_nothing)
    for router in (*ROUTERS, health.add_metrics(metrics)):
        app.include_router(router)
    add_page(app)
    return app


def add_page(app: FastAPI) -> None:
    """Serve the files of the page, read once; a path is looked up among their names and never opened."""
    files = {path.name: (path.read_bytes(), TYPES[path.suffix]) for path in PAGE.iterdir() if path.suffix in TYPES}

    @app.get("/", include_in_schema=False)
    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str = "index.html") -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such page")
        return Response(files[name][0], media_type=files[name][1], headers={"Cache-Control": "no-cache"})


async def tell(request: Request, error: Exception) -> JSONResponse:
    """An error with a status of its own."""
    assert isinstance(error, AnyHTTPException)
    answer = problem(error.status_code, str(error.detail))
    answer.headers.update({"Allow": methods_at(request)} if error.status_code == 405 else error.headers or {})
    return answer


def methods_at(request: Request) -> str:
    """What a path can be asked for; the router itself names the methods of one function only."""
    everything = (*(route for router in ROUTERS for route in router.routes), *request.app.routes)
    routes = [route for route in everything if isinstance(route, Route)]
    methods = {method for route in routes if route.path_regex.match(request.url.path) for method in route.methods or ()}
    return ", ".join(sorted(methods))


async def tell_mistake(request: Request, error: Exception) -> JSONResponse:
    """A mistake in what was sent."""
    return problem(422, str(error))


async def tell_invalid(request: Request, error: Exception) -> JSONResponse:
    """A field that is missing or of the wrong kind: where, and what was wrong with the first one."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return problem(422, f"{'.'.join(str(word) for word in first['loc'])}: {first['msg']}")


async def tell_nothing(request: Request, error: Exception) -> JSONResponse:
    """An error that nobody foresaw: the log has it, the client is told that it is not to blame."""
    return problem(500, "the service made a mistake; its log says more")
