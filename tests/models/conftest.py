"""What several files share: a Hub on this machine, and models that transformers runs."""

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


@pytest.fixture(scope="session")
def foreign(tmp_path_factory):
    """`foreign(family)` -> a small random model, made once a session."""
    from foreign_checkpoints import make_foreign

    from attncli.models.transformers_engine import load_with_transformers

    made = {}

    def load(family: str, **more):
        key = family, *more.items()
        if key not in made:
            made[key] = load_with_transformers(
                str(make_foreign(tmp_path_factory.mktemp(family), family, **more)), "cpu"
            )
        return made[key]

    return load
