"""What is peculiar to ERNIE: kinds of tasks, of which every text is of the first."""

import pytest
import torch
from checkpoints import make_config, make_network
from walks import made_up, network_of, walked

from attncli import RequestError
from attncli.models.config import ModelConfig


def read(**changes):
    return ModelConfig.from_dict({"model_type": "ernie", **changes})


def test_kinds_of_tasks_are_there_where_they_are_used():
    assert read().tasks == read(task_type_vocab_size=5).tasks == 0
    assert read(use_task_id=True).tasks == 3
    assert read(use_task_id=True, task_type_vocab_size=5).tasks == 5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"use_task_id": 1}, "use_task_id is 1, not true or false"),
        ({"use_task_id": True, "task_type_vocab_size": 0}, "task_type_vocab_size is 0"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ],
)
def test_a_wrong_value_is_named(changes, says):
    with pytest.raises(RequestError, match=says):
        read(**changes)


@pytest.mark.parametrize(("task", "same"), [(0, True), (1, False)])
def test_a_text_is_of_the_first_task(task, same):
    theirs = make_network(make_config("ernie")).double()
    ids = [5, 6, 7, 8]
    [ours] = walked(network_of(theirs, torch.float64), [made_up(ids)], whole=True).states
    with torch.inference_mode():
        expected = theirs(torch.tensor([ids]), task_type_ids=torch.full((1, 4), task)).last_hidden_state[0]
    assert torch.allclose(ours[-1], expected, rtol=0, atol=1e-10) == same
