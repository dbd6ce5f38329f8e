"""The side doors on the same port: /healthz, /readyz, /metrics, and what is refused before the WebSocket upgrade."""

from __future__ import annotations

import json
from http import HTTPStatus
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from voice import __version__, metrics
from voice.server.readiness import Service

REALTIME_PATH = "/v1/realtime"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
RETRY_AFTER_S = 5


def answer(request: Request, service: Service) -> Response | None:
    """The HTTP answer to a request; None lets the WebSocket upgrade go on."""
    path = urlsplit(request.path).path.rstrip("/") or "/"
    if path == "/healthz":
        return _json(HTTPStatus.OK, {"ok": True, "version": __version__})
    if path == "/readyz":
        reason = service.unready_reason()
        if reason is None:
            return _json(HTTPStatus.OK, {"ready": True})
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"ready": False, "reason": reason})
    if path == "/metrics":
        return _respond(HTTPStatus.OK, generate_latest(), CONTENT_TYPE_LATEST)
    if path != REALTIME_PATH:
        return _json(
            HTTPStatus.NOT_FOUND,
            {"error": f"nothing at {path}: the WebSocket is at {REALTIME_PATH}, also /healthz, /readyz and /metrics"},
        )
    return _refusal(request, service)


def _refusal(request: Request, service: Service) -> Response | None:
    """Why this client cannot connect now. Refusing after the upgrade would make some clients reconnect in a loop."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).hostname not in LOOPBACK_HOSTS:
        # Any web page may try to open a socket to this machine.
        metrics.REFUSED.labels("origin").inc()
        return _json(HTTPStatus.FORBIDDEN, {"error": f"pages from {origin} may not connect"})
    if "websocket" not in request.headers.get("Upgrade", "").lower():
        return _json(HTTPStatus.UPGRADE_REQUIRED, {"error": "connect with a WebSocket client"})
    reason = service.unready_reason()
    if reason is not None:
        metrics.REFUSED.labels("not_ready").inc()
        return _unavailable(f"not ready: {reason}")
    if service.sessions >= service.config.engines.max_sessions:
        metrics.REFUSED.labels("full").inc()
        return _unavailable(f"all {service.config.engines.max_sessions} sessions are taken")
    return None


def _unavailable(reason: str) -> Response:
    response = _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": reason})
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def _json(status: HTTPStatus, body: object) -> Response:
    return _respond(status, json.dumps(body).encode() + b"\n", "application/json")


def _respond(status: HTTPStatus, body: bytes, content_type: str) -> Response:
    headers = Headers(
        [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
    )
    return Response(status.value, status.phrase, headers, body)
