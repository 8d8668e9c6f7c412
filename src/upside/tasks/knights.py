"""Knights and knaves with 2 to 4 people in a compact notation, procedurally generated, easy to hard.

Knights (k) always tell the truth, knaves (n) never do. Each of A, B, … makes one statement; a prompt lists
them:

    A:-B;B:A=C;C:+A|-B

| claim | reads |
|---|---|
| ``-B`` / ``+B`` | B is a knave / a knight |
| ``B=C`` / ``B^C`` | B and C are the same / are different |
| ``-B&+A`` | B is a knave and A is a knight |
| ``-B|+A`` | B is a knave or A is a knight (or both) |

Exactly one assignment fits (checked by brute force); the answer lists the people's kinds in alphabetical order
after the last ``#`` of a response, here ``#nkn``. Every puzzle can be solved by supposing that A is a knight (then
a knave) and following the statements from person to person: each either settles one more person or contradicts.

| level | people | claims |
|---|---|---|
| 1 | 2 | any |
| 2 | 3 | no & or \\| before the last speaker |
| 3 | 3 | any |
| 4 | 4 | no & or \\| before the last speaker |
| 5 | 4 | any |
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from upside.tasks.arithmetic import check_levels, distinct, final_answer
from upside.tasks.base import Problem, Split, Verdict, in_test_split

Kind = Literal["is", "same", "and", "or"]
World = Mapping[str, bool]
"""person -> whether a knight."""

LEVELS: dict[int, tuple[int, tuple[Kind, ...]]] = {
    1: (2, ("is", "same", "and", "or")),
    2: (3, ("is", "same")),
    3: (3, ("is", "same", "and", "or")),
    4: (4, ("is", "same")),
    5: (4, ("is", "same", "and", "or")),
}
"""level -> (people, kinds of claim allowed before the last speaker)."""

_CLAIM = re.compile(r"([A-D])([=^])([A-D])|([-+])([A-D])(?:([&|])([-+])([A-D]))?")


@dataclass(frozen=True)
class Claim:
    """What somebody says. `signs`: whether each person is said to be a knight; for "same", whether the same."""

    kind: Kind
    people: tuple[str, ...]
    signs: tuple[bool, ...]

    def holds(self, world: World) -> bool:
        """Whether the claim is true in a world that covers its people."""
        if self.kind == "same":
            return (world[self.people[0]] == world[self.people[1]]) == self.signs[0]
        atoms = [world[p] == s for p, s in zip(self.people, self.signs, strict=True)]
        return any(atoms) if self.kind == "or" else all(atoms)

    def __str__(self) -> str:
        if self.kind == "same":
            return f"{self.people[0]}{'=' if self.signs[0] else '^'}{self.people[1]}"
        joint = "|" if self.kind == "or" else "&"
        return joint.join(("+" if s else "-") + p for p, s in zip(self.people, self.signs, strict=True))


def letter(knight: bool) -> str:
    """k or n."""
    return "k" if knight else "n"


def parse_claim(text: str) -> Claim:
    """Read one claim. Raises ValueError on anything outside the notation."""
    match = _CLAIM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a claim: {text[:20]!r}; expected forms such as -B, B=C, B^C, -B&+A, -B|+A")
    one, relation, two, sign, first, joint, second_sign, second = match.groups()
    if relation:
        return Claim("same", (one, two), (relation == "=",))
    if joint:
        return Claim("or" if joint == "|" else "and", (first, second), (sign == "+", second_sign == "+"))
    return Claim("is", (first,), (sign == "+",))


def parse(prompt: str) -> dict[str, Claim]:
    """Read a puzzle: speaker -> claim, in alphabetical order."""
    pairs = [statement.partition(":") for statement in prompt.split(";")]
    return {speaker: parse_claim(claim) for speaker, _, claim in pairs}


def fits(claims: Mapping[str, Claim], world: World) -> bool:
    """Whether knights speak the truth and knaves do not."""
    return all(claim.holds(world) == world[speaker] for speaker, claim in claims.items())


def solutions(claims: Mapping[str, Claim]) -> list[dict[str, bool]]:
    """All worlds that fit, by brute force over 2**people."""
    worlds = (dict(zip(claims, values, strict=True)) for values in itertools.product((True, False), repeat=len(claims)))
    return [world for world in worlds if fits(claims, world)]


def options(claim: Claim, speaker: bool, world: World, person: str) -> list[bool]:
    """The kinds of `person` that fit what the speaker (a knight or not) claims, given the people in `world`."""
    return [value for value in (True, False) if claim.holds({**world, person: value}) == speaker]


def order(claims: Mapping[str, Claim]) -> list[str] | None:
    """The order in which people are settled, from A on, each by the one before; None if the chain breaks."""
    chain = ["A"]
    while len(chain) < len(claims):
        fresh = [p for p in dict.fromkeys(claims[chain[-1]].people) if p not in chain]
        if len(fresh) != 1:
            return None
        chain.append(fresh[0])
    return chain


def follows(claims: Mapping[str, Claim], chain: Sequence[str]) -> bool:
    """Whether each statement leaves at most one kind for the next person, for A of either kind."""
    for start in (True, False):
        world = {"A": start}
        for speaker, person in itertools.pairwise(chain):
            left = options(claims[speaker], world[speaker], world, person)
            if len(left) == 2:
                return False
            if not left:
                break
            world[person] = left[0]
    return True


def _claim(rng: random.Random, kind: Kind, person: str, known: Sequence[str]) -> Claim:
    if kind == "is":
        return Claim(kind, (person,), (rng.random() < 0.5,))
    people = [person, rng.choice([p for p in known if p != person])]
    rng.shuffle(people)
    signs = tuple(rng.random() < 0.5 for _ in range(1 if kind == "same" else 2))
    return Claim(kind, tuple(people), signs)


def draw(rng: random.Random, level: int) -> Problem:
    """One random puzzle of a level with exactly one solution, of either split."""
    size, kinds = LEVELS[level]
    names = "ABCD"[:size]
    while True:
        chain = ["A", *rng.sample(names[1:], size - 1)]
        said = {
            s: _claim(rng, rng.choice(kinds), p, chain[: i + 1]) for i, (s, p) in enumerate(itertools.pairwise(chain))
        }
        last = chain[-1]
        said[last] = _claim(rng, rng.choice(("is", "same", "and", "or")), rng.choice(chain[:-1]), chain)
        claims = {name: said[name] for name in names}
        if not follows(claims, chain):
            continue
        found = solutions(claims)
        if len(found) == 1:
            prompt = ";".join(f"{speaker}:{claim}" for speaker, claim in claims.items())
            answer = "".join(letter(v) for v in found[0].values())
            return Problem(f"knights/{prompt}", prompt, answer, level, {"family": "knights"})


class Knights:
    """The task ``knights``.

    levels: which levels to draw from, each equally often (default: all of 1..5).
    """

    name = "knights"

    def __init__(self, levels: Sequence[int] = tuple(LEVELS)) -> None:
        self.levels = check_levels(levels, tuple(LEVELS), self.name)

    def draw(self, rng: random.Random, split: Split) -> Problem:
        """One puzzle of a split; may repeat an earlier one."""
        while True:
            problem = draw(rng, rng.choice(self.levels))
            if in_test_split(problem.id) == (split == "test"):
                return problem

    def problems(self, split: Split, count: int | None = None, seed: int = 0) -> list[Problem]:
        """`count` distinct puzzles (default 1000). Raises ValueError when the levels hold fewer."""
        return distinct(self, split, 1000 if count is None else count, seed)

    def verify(self, problem: Problem, response: str) -> Verdict:
        """Score 1.0 when the text after the last ``#`` is the assignment, else 0.0 (also for none)."""
        correct = "".join(final_answer(response).split()) == problem.answer
        return Verdict(float(correct), correct)
