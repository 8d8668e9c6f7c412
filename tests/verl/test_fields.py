import pytest
import torch

from upside.engines.verl import fields

INFOS = [{"score": 0.7, "correct": True}, {"score": 0.1, "correct": False}]


def test_the_last_output_of_a_session_speaks_for_it():
    keys = ["u_0_0", "u_1_0", "u_0_2", "u_0_1", "v_x_0_0", "u_10_0"]
    assert fields.speakers(keys) == [2, 1, 2, 2, 4, 5]
    assert fields.session_numbers(["u_0_0", "u_11_3", "a_b_2_0"]) == [0, 11, 2]


def test_entropy_is_the_mean_over_generated_tokens():
    values = torch.tensor([[1.0, 3.0, 8.0], [2.0, torch.nan, 0.0], [1.0, 1.0, 1.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 1], [0, 0, 0]])  # a tool's tokens, and padding
    assert fields.mean_over_tokens(values, mask) == [2.0, 1.0, 0.0]


def test_truncated_is_at_the_limit_without_an_end():
    responses = [torch.tensor(ids) for ids in ([5, 6, 7], [5, 6, 1], [5, 6], [5, 6, 2])]
    assert fields.truncation(responses, {1, 2}, 3) == [True, False, False, False]


def test_correctness_comes_from_the_reward_functions_dict():
    assert fields.correctness(INFOS, None, needed=True) == [True, False]
    assert fields.correctness([{"acc": 1.0}, {}], None, needed=False) == [True, None]
    assert fields.correctness([{"acc": 0.3}], None, needed=False) is None  # verl puts a shaped score there
    assert fields.correctness([{}], None, needed=False) is None
    assert fields.correctness([{"right": 1}], "right", needed=False) == [True]
    assert fields.correctness([{"correct": 1}, {"correct": float("nan")}], None, needed=True) == [True, None]


@pytest.mark.parametrize(
    ("infos", "key", "needed", "message"),
    [
        ([{"acc": 0.3}], None, True, "'acc' of the reward function is 0.3.*upside.correct=KEY"),
        ([{}], None, True, "says nothing of 'correct'"),
        ([{"correct": True}], "right", False, "says nothing of 'right'"),
        ([{"correct": "yes"}], None, False, None),
    ],
)
def test_no_outcome_is_said(infos, key, needed, message):
    if message is None:
        assert fields.correctness(infos, key, needed) is None
        return
    with pytest.raises(ValueError, match=message):
        fields.correctness(infos, key, needed)


def test_reference_rewards_are_paired_by_session():
    column = [[0.0, 0.5], [0.0, 0.5], 1, None, torch.tensor([0.25, 0.75])]
    assert fields.paired(column, [0, 1, 7, 0, 1], "reference_rewards") == [0.0, 0.5, 1.0, None, 0.75]
    with pytest.raises(ValueError, match=r"holds 2 reference rewards.*at least 3"):
        fields.paired(column, [2, 1, 7, 0, 1], "reference_rewards")


def test_a_metric_comes_from_the_reward_function_or_a_column():
    assert fields.metric("score", INFOS, [9, 9]) == [0.7, 0.1]
    assert fields.metric("difficulty", INFOS, [1, None]) == [1.0, None]
    with pytest.raises(ValueError, match="needs difficulty; return it from the reward function"):
        fields.metric("difficulty", INFOS, None)
