"""The HTTP application: both OpenAPI documents in connexion, with parts of its stack replaced (see docs/http.md)."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from connexion import ConnexionMiddleware
from connexion.middleware.exceptions import ExceptionMiddleware
from connexion.middleware.lifespan import LifespanMiddleware
from connexion.middleware.security import SecurityMiddleware
from connexion.spec import Specification
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp

import openapi
from handlers import metrics, tracing
from handlers.http import problems, storage
from handlers.http.contract import ResponseContract
from handlers.http.dispatch import Dispatcher
from handlers.http.envelope import Envelope
from handlers.http.exchange import Exchange
from handlers.http.logging import configure
from handlers.http.operations import Dispatch, Operations
from handlers.http.pages import Site, create_pages_app, no_figures
from handlers.http.routing import Routing, SurfaceResolver
from handlers.http.security import Authenticate, refuse_every_key, security_map
from handlers.http.threads import FairThreads, Share, Threads
from handlers.http.throttle import Throttle
from handlers.http.token_threads import (
    PASSWORD_THREADS,
    SECRET_THREADS,
    FindOrganization,
    TokenThreads,
    find_no_organization,
)
from handlers.http.tracing import Traced
from handlers.http.wsgi import OneHopWsgi
from handlers.messages.validation import Schemas
from handlers.services.partners.authentication import KeyAuthenticator
from handlers.services.sign_in import ClientOrganizations
from handlers.services.tokens import Authenticator
from handlers.services.unit_of_work.deadlines import limit_evaluation
from handlers.settings import Settings
from persistence import queue, replication, schema, transactions, triggers
from persistence.connections import TransactionDeadlineExceeded, fetch_rows
from persistence.engine import autocommit, create_engine

Figures = TypeVar("Figures")

BASE_PATH = "/v2"
# Health checks and pages have their own threads: they respond while all other threads wait for the database.
_PAGE_THREADS = 2
# Dry runs explain every campaign to people, which takes long: they only delay each other.
DRY_RUN_THREADS = 1
EXTRA_THREADS = SECRET_THREADS + PASSWORD_THREADS + DRY_RUN_THREADS


def create_app(settings: Settings, engine: Engine) -> ASGIApp:
    """Create the application for production.

    Raises an error if documents, handlers and addresses do not fit together.
    """
    if not logging.getLogger().handlers:
        # If logging is already set up, such as by a test run, it stays unchanged.
        configure(settings.log_level, settings.log_format)
    metrics.watch_pool(engine)
    tracing.start(settings)
    limit_evaluation(settings)
    authenticator = Authenticator(settings, engine)
    replica = _replica(settings)
    dispatcher = Dispatcher(settings, engine, replica)
    with _skip_document_validation():
        return build_app(
            {surface: openapi.bundle(surface) for surface in openapi.SURFACES},
            dispatcher,
            authenticator,
            settings,
            Site(
                readiness=_readiness(engine),
                jwks=authenticator.jwks,
                base_url=settings.base_url,
                management_port=settings.management_port,
                queue=_figures(engine, queue.figures),
                deliveries=_figures(engine, triggers.figures),
                replica_lag=no_figures if replica is None else _figures(replica, replication.lag),
            ),
            authenticate_key=KeyAuthenticator(engine),
            find_organization=ClientOrganizations(engine),
        )


@contextmanager
def _skip_document_validation() -> Iterator[None]:
    """Have connexion skip its validation of OpenAPI documents, which takes half of the start; tests validate them."""
    validate = Specification.__dict__["_validate_spec"]
    Specification._validate_spec = classmethod(lambda cls, spec: None)
    try:
        yield
    finally:
        Specification._validate_spec = validate


def _replica(settings: Settings) -> Engine | None:
    """The engine of the read replica, which connects at its first query; None if there is no replica."""
    if not settings.read_database_url:
        return None
    return _engine(settings, settings.read_database_url, settings.threads, "loyalty-read")


def serving_engine(settings: Settings) -> Engine:
    """The engine of a process that serves requests."""
    return _engine(settings, settings.database_url, settings.threads + EXTRA_THREADS, "loyalty-serve")


def _engine(settings: Settings, url: str, threads: int, application_name: str) -> Engine:
    """An engine with the timeouts of the settings."""
    return create_engine(
        url,
        threads=threads,
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name=application_name,
    )


def build_app(
    documents: Mapping[str, dict[str, Any]],
    dispatch: Dispatch,
    authenticate: Authenticate,
    settings: Settings,
    site: Site | None = None,
    authenticate_key: Authenticate = refuse_every_key,
    find_organization: FindOrganization = find_no_organization,
) -> ASGIApp:
    """Build the application of OpenAPI 3.0.3 documents, one for each surface; `dispatch` runs their operations.

    `authenticate` finds the caller of an access token, `authenticate_key` that of an API key, `find_organization` the
    organization of a client who requests a token. The application uses the settings for threads, sizes of bodies,
    timeouts and rates, and `validate_responses`.
    """
    workers = FairThreads(settings.threads, "operation")
    page_threads = Threads(_PAGE_THREADS, "page")

    def threads_of_address(exchange: Exchange) -> Share:
        """The executor of work before the organization is found; clients share it fairly, by address."""
        return workers.of(None, exchange.address)

    token_threads = TokenThreads(threads_of_address, find_organization)
    dry_run_threads = FairThreads(DRY_RUN_THREADS, "dry-run")
    throttle = Throttle(settings)
    request_seconds = settings.request_timeout_ms / 1000
    flask_pages = OneHopWsgi(create_pages_app(documents, BASE_PATH, site or Site()).wsgi_app, page_threads)
    connexion = ConnexionMiddleware(
        Operations(
            flask_pages,
            dispatch,
            workers.of,
            token_pool=token_threads.of,
            dry_run_pool=dry_run_threads.of,
            throttle=throttle,
            max_body_bytes=settings.max_body_bytes,
            request_seconds=request_seconds,
            max_batch=settings.calls_together,
        ),
        import_name=__name__,
        lifespan=_lifespan_of(workers, token_threads, dry_run_threads, page_threads),
        middlewares=[ExceptionMiddleware, Routing, SecurityMiddleware, LifespanMiddleware],
        security_map=dict(security_map(authenticate, authenticate_key, threads_of_address, request_seconds)),
    )
    schemas = {surface: Schemas(surface, document) for surface, document in documents.items()}
    for surface, document in documents.items():
        connexion.add_api(
            document,
            base_path=BASE_PATH,
            name=surface,
            resolver=SurfaceResolver(surface, dispatch),
            schemas=schemas[surface],
        )
    problems.install(connexion)
    # connexion would build the stack at the first request. Here faults of OpenAPI documents are found at the start, and
    # with preloading, workers share the memory of the stack.
    connexion.app, connexion.middleware_stack = connexion._build_middleware_stack()
    app: ASGIApp = connexion
    if settings.validate_responses:
        app = ResponseContract(app, documents, schemas)
    envelope = Envelope(app, throttle)
    return Traced(envelope) if tracing.is_on() else envelope


def _lifespan_of(*pools: FairThreads | Threads | TokenThreads) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """A lifespan for the application: at its end, the threads of the pools finish their work."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        for pool in pools:
            pool.close()

    return lifespan


def _figures(engine: Engine, read: Callable[[Connection], Figures]) -> Callable[[], Figures | None]:
    """A function that reads figures from a database, and returns None while the database is unavailable.

    An error would keep the other measurements from being reported.
    """

    def figures() -> Figures | None:
        try:
            return transactions.read(autocommit(engine), read)
        except (SQLAlchemyError, TransactionDeadlineExceeded):
            return None

    return figures


def _readiness(engine: Engine) -> Callable[[], Mapping[str, bool]]:
    """The checks of `/health/ready`: the database accepts writes and has space, and its schema is of this version."""
    migrated = False

    def readiness() -> Mapping[str, bool]:
        nonlocal migrated
        try:
            # A standby is read-only, too.
            is_read_only = transactions.read(
                autocommit(engine), lambda db: fetch_rows(db, "SHOW transaction_read_only", ())
            )
            accepts_writes = is_read_only == [("off",)]
            migrated = migrated or not schema.find_pending_migrations(engine)
        except (SQLAlchemyError, TransactionDeadlineExceeded):
            return {"database": False, "storage": True, "migrations": migrated}
        except schema.SchemaError:
            return {"database": accepts_writes, "storage": not storage.is_full(), "migrations": False}
        return {"database": accepts_writes, "storage": not storage.is_full(), "migrations": migrated}

    return readiness
