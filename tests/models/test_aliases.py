"""Short names: what is said of a model that is not here is what its authors say."""

import pytest
import torch
import transformers

from attncli.models.aliases import ALIASES, find_alias
from attncli.models.transformers_peer import reference_config

# Millions of parameters, as papers and model cards give them: every number of an architecture is in them.
PUBLISHED = {
    "minilm": 22.7, "minilm-l12": 33.4, "bert-base": 110, "bert-large": 335, "bge-small": 33.4, "bge-base": 109,
    "bge-large": 335, "e5-small": 33.4, "e5-base": 109, "e5-large": 335, "multilingual-e5-small": 118,
    "gte-small": 33.4, "gte-base": 109, "gte-large": 335, "distilbert": 66, "electra-small": 13.5,
    "roberta-base": 125, "roberta-large": 355, "distilroberta": 82, "xlm-roberta-base": 278, "multilingual-e5": 278,
    "multilingual-e5-large": 560, "bge-m3": 568, "modernbert": 149, "modernbert-large": 395, "gte-modernbert": 149,
    "granite-r2": 149, "ettin": 150, "ettin-17m": 17, "ettin-32m": 32, "ettin-68m": 68, "ettin-400m": 395,
    "ettin-1b": 1028, "mmbert": 307, "mmbert-small": 140, "mpnet": 109, "deberta-v3": 184, "deberta-v3-xsmall": 70.7,
    "xlm-roberta-xl": 3500, "xlm-roberta-xxl": 10700, "ernie-3": 118, "deberta-v3-small": 141, "deberta-v3-large": 434,
    "eurobert": 212, "eurobert-610m": 608, "eurobert-2.1b": 2107, "albert-base": 11.8, "albert-large": 17.9,
    "albert-xlarge": 58.9, "albert-xxlarge": 223, "albert-small": 11.7, "deberta-base": 139, "deberta-large": 405,
    "deberta-xlarge": 757, "nomic-embed": 137, "nomic-embed-v1": 137, "coderank": 137, "arctic-embed-m-long": 137,
    "gte-base-v1.5": 137, "gte-large-v1.5": 434, "gte-multilingual": 305, "jina-v3": 559,  # 572 with its adapters
    "smollm2": 134.5,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("alias", PUBLISHED)
def test_an_architecture_has_as_many_parameters_as_its_authors_say(alias):
    config = reference_config(ALIASES[alias].config)
    with torch.device("meta"):
        network = transformers.AutoModel.from_config(config)
    assert sum(one.numel() for one in network.parameters()) / 1e6 == pytest.approx(PUBLISHED[alias], rel=0.015)


def test_no_two_names_mean_the_same_repository():
    names = [name for alias, entry in ALIASES.items() for name in {alias, entry.repo, entry.repo.partition("/")[2]}]
    assert len(names) == len(set(names))
    assert all(find_alias(entry.repo)[0] == alias for alias, entry in ALIASES.items())
