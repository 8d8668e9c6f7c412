"""The knights-and-knaves task: claims, uniqueness by brute force, splits, verifier."""

import itertools

import pytest

from upside.tasks import knights
from upside.tasks.base import Problem, Task, in_test_split
from upside.tasks.knights import Claim, Knights

TASK = Knights()
PROBLEM = Problem("knights/A:-B;B:A=C;C:+A|-B", "A:-B;B:A=C;C:+A|-B", "nkn", 3, {"family": "knights"})


def true(claim: str, kinds: dict[str, str]) -> bool:
    """An independent reading of a claim."""
    if "&" in claim:
        return all(true(part, kinds) for part in claim.split("&"))
    if "|" in claim:
        return any(true(part, kinds) for part in claim.split("|"))
    if claim[1] in "=^":
        return (kinds[claim[0]] == kinds[claim[2]]) == (claim[1] == "=")
    return kinds[claim[1]] == {"+": "k", "-": "n"}[claim[0]]


def brute_force(prompt: str) -> list[str]:
    """All assignments under which exactly the knights tell the truth."""
    statements = [s.split(":") for s in prompt.split(";")]
    found = []
    for kinds in itertools.product("kn", repeat=len(statements)):
        world = {speaker: kind for (speaker, _), kind in zip(statements, kinds, strict=True)}
        if all(true(claim, world) == (world[speaker] == "k") for speaker, claim in statements):
            found.append("".join(kinds))
    return found


def test_is_a_task() -> None:
    assert isinstance(TASK, Task)


@pytest.mark.parametrize("level", knights.LEVELS)
def test_exactly_one_solution(level: int) -> None:
    size, kinds = knights.LEVELS[level]
    for problem in Knights([level]).problems("train", 60, seed=level):
        assert brute_force(problem.prompt) == [problem.answer]
        claims = knights.parse(problem.prompt)
        assert list(claims) == list("ABCD"[:size])
        chain = knights.order(claims)
        assert chain is not None
        assert all(claims[speaker].kind in kinds for speaker in chain[:-1])
        assert len(problem.prompt) <= 31


def test_puzzle_of_the_docs() -> None:
    assert brute_force(PROBLEM.prompt) == ["nkn"]
    assert knights.solutions(knights.parse(PROBLEM.prompt)) == [{"A": False, "B": True, "C": False}]


@pytest.mark.parametrize("text", ["+B", "-B", "B=C", "B^C", "-B&+A", "-B|+A"])
def test_claims_read_and_write(text: str) -> None:
    claim = knights.parse_claim(text)
    assert str(claim) == text
    for kinds in itertools.product("kn", repeat=3):
        world = dict(zip("ABC", kinds, strict=True))
        assert claim.holds({p: k == "k" for p, k in world.items()}) == true(text, world)


@pytest.mark.parametrize("text", ["", "B", "*B", "B=", "+B&", "+B=C", "B=+C", "B=C&+A", "+E", "+B " * 100])
def test_bad_claims(text: str) -> None:
    with pytest.raises(ValueError, match="not a claim"):
        knights.parse_claim(text)


def test_chain_that_breaks() -> None:
    assert knights.order({"A": Claim("is", ("A",), (True,)), "B": Claim("is", ("A",), (True,))}) is None


def test_fixed_by_seed_and_distinct() -> None:
    first, again, other = (TASK.problems("train", 300, seed) for seed in (1, 1, 2))
    assert first == again
    assert [p.id for p in first] != [p.id for p in other]
    assert len({p.id for p in first}) == 300


def test_splits_never_meet() -> None:
    train = {p.id for seed in range(3) for p in TASK.problems("train", 400, seed)}
    test = {p.id for seed in range(3) for p in TASK.problems("test", 400, seed)}
    assert not train & test
    assert all(in_test_split(i) for i in test)


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("#nkn", True),
        ("Ak:-B,Bn:A=C,Cn:+A|-B>AktBnttx;An:-B,Bk:A=C,Cn#nkn", True),
        ("# n k n ", True),
        ("#kkk#nkn", True),
        ("#nkk", False),
        ("#nk", False),
        ("#nknn", False),
        ("nkn", False),
        ("#NKN", False),
        ("", False),
        ("#", False),
        ("#nkn#", False),
        ("#" + "nkn" * 500_000, False),
        ("#" * 1_000_000, False),
    ],
)
def test_verify(response: str, correct: bool) -> None:
    verdict = TASK.verify(PROBLEM, response)
    assert (verdict.score, verdict.correct) == (float(correct), correct)


def test_levels() -> None:
    assert {len(p.answer) for p in Knights([1]).problems("train", 20)} == {2}
    with pytest.raises(ValueError, match="knights: levels="):
        Knights(levels=[0])
    with pytest.raises(ValueError, match="distinct test problems"):
        Knights(levels=[1]).problems("test", 500)
