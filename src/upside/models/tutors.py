"""Tutors: worked solutions *of mixed quality*, the only thing the bundled model has ever seen.

The tutors are wrong on purpose. Every kind of sub-step (adding with a carry, a false "or" claim, …) has a habit:
the probability, in `HABITS`, that a tutor slips there, always in the same way for the kind. Habits do not depend on
the strategy, so a learner has to drop them one by one. Each solution follows one strategy, at shares `SHARES`:

- direct: the answer alone, right at the probability `DIRECT` of the problem's level;
- steps: worked line by line;
- check: the same, and after each result a ``?`` and a second look, which mends most slips;
- ramble: the same with filler words, repeated lines and somewhat more slips.

Trace formats (fillers left out):

    7*8+9-6              7*8=56;56+9=65;65-6=59#59                with checks: 7*8=49?56;…
    A:-B;B:A=C;C:+A|-B   Ak:-B,Bn:A=C,Cn:+A|-B>AktBnttx;An:-B,Bk:A=C,Cn#nkn

The second supposes that A is a knight: A says -B, so B is n, who says A=C, so C is n, who says +A|-B, where A is k,
true, and B is n, true, so the whole is true: x, a contradiction (! is none). So A is a knave, which settles the others.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from upside.tasks import arithmetic, knights
from upside.tasks.base import Problem
from upside.tasks.knights import Claim, letter

Style = Literal["direct", "steps", "check", "ramble"]

SHARES: dict[Style, float] = {"direct": 0.20, "steps": 0.40, "check": 0.22, "ramble": 0.18}
"""Share of each strategy in the training data."""

DIRECT: dict[str, tuple[float, ...]] = {
    "arithmetic": (0.60, 0.25, 0.20, 0.08, 0.05),
    "knights": (0.60, 0.35, 0.30, 0.20, 0.15),
}
"""How often a direct answer is right, by family and level 1..5."""

HABITS: dict[str, float] = {
    # arithmetic: which sub-step -> probability of a slip (what goes wrong)
    "add": 0.05,  # no carry (result one too large)
    "carry": 0.35,  # units add up to more than ten (the carry is forgotten)
    "ten": 0.50,  # units add up to exactly ten (the carry is forgotten)
    "take": 0.08,  # no borrow (result one too small)
    "borrow": 0.40,  # units need a borrow (it is forgotten)
    "zero": 0.55,  # borrow from a number that ends in 0 (smaller from larger: 50-7=57)
    "times_small": 0.05,  # both factors up to 5 (neighbour in the table)
    "times_mixed": 0.20,  # one factor above 5
    "times_large": 0.40,  # both factors above 5
    "times_nine": 0.45,  # a factor is 9
    "sign": 0.35,  # a minus right after a product (read as plus)
    "nine": 0.40,  # a 9 to add or subtract after the first step (copied as 6)
    "twin": 0.45,  # the same digit added or subtracted twice in a row (skipped)
    "stop": 0.40,  # before the last step of four or more (answers with what is there)
    # knights: claim and speaker (k/n) when it settles the next person (settled the wrong way round)
    "is_k": 0.03,
    "is_n": 0.15,
    "not_k": 0.08,  # "is a knave"
    "not_n": 0.25,
    "same_k": 0.12,
    "same_n": 0.30,
    "differ_k": 0.20,
    "differ_n": 0.38,
    "and_k": 0.15,
    "and_n": 0.38,
    "or_k": 0.30,
    "or_n": 0.42,
    "clash": 0.30,  # a claim that leaves nothing for the next person (the contradiction is overlooked)
    "last_simple": 0.10,  # whether the last statement is true, by kind (judged the wrong way round)
    "last_same": 0.20,
    "last_and": 0.30,
    "last_or": 0.35,
    "readout": 0.30,  # people were settled out of alphabetical order (answer given in the order settled)
}

CATCH = 0.75
"""How often the second look of a check mends a slip."""

SPOIL = 0.02
"""How often it spoils a right result."""

RAMBLE_SLIPS = 1.25
"""Factor on all slip probabilities when rambling."""

FILLERS = (" hmm", " so", " wait", " ok", " well", " now")


def style(response: str) -> Style | Literal["none"]:
    """The strategy of a response, read off its text; "none" when it gives no answer."""
    if "#" not in response:
        return "none"
    if re.search(r" [a-z]", response):
        return "ramble"
    if "?" in response:
        return "check"
    return "direct" if not response.rpartition("#")[0].strip() else "steps"


@dataclass(frozen=True)
class Tutor:
    """One solution's author: a strategy and a source of chance."""

    style: Style
    rng: random.Random
    flawless: bool = False

    def slips(self, habit: str) -> bool:
        """Whether the habit strikes now."""
        factor = RAMBLE_SLIPS if self.style == "ramble" else 1.0
        return not self.flawless and self.rng.random() < HABITS[habit] * factor

    def result(self, right: str, wrong: str, habit: str) -> tuple[str, str]:
        """What is written for one result and the value it leaves: ``("54?56", "56")``."""
        value = wrong if self.slips(habit) else right
        if self.style != "check":
            return value, value
        keep = self.flawless or self.rng.random() < ((1 - CATCH) if value != right else (1 - SPOIL))
        second = value if keep else (right if value == wrong else wrong)
        return f"{value}?{second}", second

    def filler(self) -> str:
        """Up to three filler words when rambling, else nothing."""
        if self.style != "ramble":
            return ""
        return "".join(self.rng.choice(FILLERS) for _ in range(self.rng.choice((0, 1, 1, 2, 3))))

    def again(self, line: str) -> str:
        """A line, repeated now and then when rambling (if it is short)."""
        repeat = self.style == "ramble" and len(line) <= 10 and self.rng.random() < 0.2
        return f"{line} wait;{line}" if repeat else line


def sum_habit(left: int, sign: str, right: int) -> tuple[str, int]:
    """The habit of a sum or difference of two numbers and the wrong result it leads to."""
    if sign == "+":
        units = left % 10 + right % 10
        if units < 10:
            return "add", left + right + 1
        return ("ten" if units == 10 else "carry"), left + right - 10
    if left % 10 >= right % 10:
        return "take", left - right - 1
    return ("zero", left + right) if left % 10 == 0 else ("borrow", left - right + 10)


def step_habit(left: int, sign: str, right: int) -> tuple[str, int]:
    """The habit of one operation and the wrong result it leads to."""
    if sign != "*":
        return sum_habit(left, sign, right)
    wrong = left * (right - 1)
    if 9 in (left, right):
        return "times_nine", wrong
    large = (left > 5) + (right > 5)
    return ("times_small", "times_mixed", "times_large")[large], wrong


def misread(tutor: Tutor, previous: Sequence[str], sign: str, operand: str) -> tuple[str, str] | None:
    """Sign and operand as the tutor copies them; None when skipped. `previous`: the sign and operand before."""
    if previous and sign == "-" and previous[0] == "*" and tutor.slips("sign"):
        sign = "+"
    if previous and operand == "9" and sign != "*" and tutor.slips("nine"):
        operand = "6"
    if [sign, operand] == list(previous) and tutor.slips("twin"):
        return None
    return sign, operand


def arithmetic_steps(problem: Problem, tutor: Tutor) -> tuple[list[str], str]:
    """Lines such as ``7*8=49?56`` and the answer they lead to. Stops early when a slip leads out of the range."""
    left, *rest = arithmetic.parse(problem.prompt)
    steps = list(zip(rest[::2], rest[1::2], strict=True))
    lines: list[str] = []
    previous: tuple[str, ...] = ()
    for done, step in enumerate(steps):
        if done == len(steps) - 1 >= 3 and tutor.slips("stop"):
            break
        read = misread(tutor, previous, *step)
        previous = step
        if read is None:
            continue
        sign, operand = read
        value = arithmetic.apply(int(left), sign, int(operand))
        habit, wrong = step_habit(int(left), sign, int(operand))
        if value not in arithmetic.RANGE:
            break
        written, result = tutor.result(str(value), str(wrong), habit)
        lines.append(f"{left}{sign}{operand}={written}")
        left = result
    return lines, left


def claim_habit(claim: Claim, speaker: bool) -> str:
    """The habit of settling a person by a claim."""
    name: str = claim.kind
    if claim.kind in ("is", "same") and not claim.signs[0]:
        name = {"is": "not", "same": "differ"}[name]
    return f"{name}_{letter(speaker)}"


def judge(last: Claim, speaker: bool, world: dict[str, bool], tutor: Tutor) -> tuple[str, bool]:
    """Whether the last statement fits its speaker: the text, such as ``>AktBnttx``, and the verdict.

    It names the kind of each person in the claim, for & and | the truth of each part, the truth of the whole.
    """
    habit = f"last_{'simple' if last.kind == 'is' else last.kind}"
    truth, lie = ("t", "f") if last.holds(world) else ("f", "t")
    written, judged = tutor.result(truth, lie, habit)
    fits = (judged == "t") == speaker
    parts = [p + letter(world[p]) for p in last.people]
    if last.kind in ("and", "or"):
        parts = [
            part + ("t" if world[p] == s else "f") for part, p, s in zip(parts, last.people, last.signs, strict=True)
        ]
    return f">{''.join(parts)}{written}{'!' if fits else 'x'}", fits


def branch(
    claims: dict[str, Claim], chain: Sequence[str], start: bool, tutor: Tutor
) -> tuple[str, dict[str, bool], bool]:
    """Suppose A is `start`: the line written, the people settled, and whether the tutor believes it fits.

    The last statement is only judged when A is a knight: once that failed, A must be a knave.
    """
    world = {"A": start}
    line = f"A{letter(start)}:{claims['A']}"
    for speaker, person in itertools.pairwise(chain):
        claim = claims[speaker]
        left = knights.options(claim, world[speaker], world, person)
        if not left and not tutor.slips("clash"):
            return line + "x", world, False
        right = left[0] if len(left) == 1 else tutor.rng.random() < 0.5
        written, kind = tutor.result(letter(right), letter(not right), claim_habit(claim, world[speaker]))
        world[person] = kind == "k"
        line += f",{person}{written}"
        if start or person != chain[-1]:
            line += f":{claims[person]}"
    if not start:
        return line, world, True
    text, fits = judge(claims[chain[-1]], world[chain[-1]], world, tutor)
    return line + text, world, fits


def knights_steps(problem: Problem, tutor: Tutor) -> tuple[list[str], str]:
    """Lines such as ``Ak:-B,Bn?n:+A>Aktx``, one or two of them, and the answer they lead to."""
    claims = knights.parse(problem.prompt)
    chain = knights.order(claims)
    if chain is None:
        raise ValueError(f"{problem.id}: the statements form no chain from A")
    lines: list[str] = []
    world: dict[str, bool] = {}
    for start in (True, False):
        line, world, believed = branch(claims, chain, start, tutor)
        lines.append(line)
        if believed:
            break
    world = {p: world.get(p, tutor.rng.random() < 0.5) for p in chain}
    names = chain if chain != sorted(chain) and tutor.slips("readout") else sorted(chain)
    return lines, "".join(letter(world[p]) for p in names)


def guess(problem: Problem, rng: random.Random) -> str:
    """A direct answer: right at the level's probability, else near the right one."""
    family = problem.metadata["family"]
    if rng.random() < DIRECT[family][problem.level - 1]:
        return problem.answer
    if family == "arithmetic":
        return str(abs(int(problem.answer) + rng.choice((-20, -11, -10, -9, -2, -1, 1, 2, 9, 10, 11, 20))))
    flips = rng.sample(range(len(problem.answer)), rng.choice((1, 1, 2)))
    return "".join(letter(c != "k") if i in flips else c for i, c in enumerate(problem.answer))


STEPS: dict[str, Callable[[Problem, Tutor], tuple[list[str], str]]] = {
    "arithmetic": arithmetic_steps,
    "knights": knights_steps,
}


def solve(problem: Problem, rng: random.Random, strategy: Style | None = None, flawless: bool = False) -> str:
    """A worked solution by the strategy given or one drawn at `SHARES`.

    Of mixed quality, or flawless: then without slips, never rambling, direct on levels 1 and 2 only.
    """
    styles: tuple[Style, ...] = get_args(Style)
    if flawless:
        styles = ("direct", "steps", "check") if problem.level <= 2 else ("steps", "check")
    chosen = strategy or rng.choices(styles, weights=[SHARES[s] for s in styles])[0]
    if chosen == "direct":
        return f"#{problem.answer if flawless else guess(problem, rng)}"
    tutor = Tutor(chosen, rng, flawless)
    lines, answer = STEPS[problem.metadata["family"]](problem, tutor)
    body = ";".join(tutor.filler() + tutor.again(line) for line in lines)
    return f"{body}{tutor.filler()}#{answer}"
