"""A server of two models, for all tests of it."""

import pytest
from serving import TEXT, serving

from attncli.live import Session
from attncli.live.server.app import Site
from attncli.models.opening import Opening
from attncli.record.selection import Input


@pytest.fixture(scope="session")
def served(minilm, tiny):
    """The default model and a small one whose directory is no business of a browser, under two masks."""
    folder = tiny("bert", seed=3)
    session = Session([Opening("minilm", "cpu"), Opening(str(folder), "cpu")])
    session.engines["minilm", ""] = minilm
    texts = [Input(TEXT), Input("the big cat", "it sat"), Input("<b>bold</b> & \u202eturned")]
    with serving(Site(session, texts, masks=("padding", "causal"))) as one:
        yield one


@pytest.fixture
def folder(served):
    """The directory of its second model."""
    return served.site.session.models[1]


@pytest.fixture
def small(served):
    """The name of that model."""
    return list(served.site.names)[1]
