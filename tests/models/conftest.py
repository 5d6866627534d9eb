"""Fixtures of the tests of models: a Hub on this machine."""

import threading

import pytest
from hub_server import HubServer


@pytest.fixture
def hub_server():
    server = HubServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
