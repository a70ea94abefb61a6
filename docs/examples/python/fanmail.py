"""Requests to Fanmail's HTTP API, with the standard library only."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request

TRIES = 6
TIMEOUT = 30  # seconds: longer than the 10 s that a login waits


class Problem(Exception):
    """An answer that refuses a request. type is stable, and the text says what to do."""

    def __init__(self, status, document):
        super().__init__(f"{document.get('detail') or document.get('title') or 'no answer of Fanmail'} ({status})")
        self.type = document.get("type")


def server(role):
    """Return the URL of the server: that of a role if roles run apart, or that of all roles."""
    return os.environ.get(role) or os.environ.get("FANMAIL_SERVER") or "http://127.0.0.1:8080"


def call(url, method, body=None, key=None):
    """Send a request until it is answered, and return the answer.

    429 and 503 ask to repeat the request after Retry-After. A lost connection does not tell whether the server has the
    request. Repeating is safe: publishing has an idempotency key, and the other requests of these examples are idempotent.
    """
    if method == "POST" and url.endswith("/v1/messages") and not key:
        raise ValueError("publishing needs an idempotency key: without one, a repetition is another message")
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    if path := os.environ.get("FANMAIL_TOKEN_FILE"):
        with open(path, encoding="utf-8") as file:
            headers["Authorization"] = "Bearer " + file.read().strip()
    data = None if body is None else json.dumps(body).encode()
    for tried in range(1, TRIES + 1):
        pause = 0.1 * 2**tried
        try:
            request = urllib.request.Request(url, data=data, headers=headers, method=method)
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                return json.loads(response.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or tried == TRIES:
                raise problem(error) from error
            if (seconds := error.headers.get("Retry-After", "")).isdecimal():
                pause = int(seconds)
        except (http.client.HTTPException, OSError):  # without an answer
            if tried == TRIES:
                raise
        time.sleep(pause)


def problem(error):
    """Return the problem document of an error. A proxy in front of Fanmail may answer something else."""
    try:
        return Problem(error.code, json.loads(error.read()))
    except (ValueError, AttributeError):
        return Problem(error.code, {})
