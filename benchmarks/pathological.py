"""Fifty answers made to hang, blow up or confuse a symbolic checker, each as (gold, response).

Towers of powers and factorials, nesting, giant digits, radicals, matrices, integrals, sums and unbalanced junk, after
Math-Verify#50, #55, #59, #63, #65, Gym#1354 and opencompass#2478. `unique` makes every text different, so that no
cache can help.
"""

from __future__ import annotations


def _nested(opening: str, core: str, closing: str, depth: int) -> str:
    return opening * depth + core + closing * depth


def pathological(unique: int = 0) -> list[tuple[str, str]]:
    """The fifty pairs. `unique` is worked into each response."""
    n = str(7 + unique)
    answers = [
        f"9^{{9^{{9^{{{n}}}}}}}",
        f"{n}^{{9^{{9^9}}}}",
        f"9**9**9**{n}",
        f"2^{{2^{{2^{{2^{{2^{{{n}}}}}}}}}}}",
        f"{n}!!!!",
        f"({n}^{{{n}}})!!",
        f"10^{{10^{{{n}}}}}!",
        f"{n}^{{10^{{9}}}}",
        f"(1+\\frac{{1}}{{{n}}})^{{10^{{12}}}}",
        f"(x+{n})^{{1000000}}",
        f"(x+y+z+w+{n})^{{400}}",
        f"\\binom{{10^{{9}}+{n}}}{{5\\cdot 10^{{8}}}}",
        f"\\sqrt[10^{{9}}]{{{n}^{{10^{{9}}}}}}",
        _nested(r"\sqrt{1+", n, "}", 50),
        _nested(r"\sqrt{", n, "}", 55),
        _nested(r"\sqrt{", n, "}", 2_000),
        _nested("(", n, ")", 55),
        _nested("(", n, ")", 5_000),
        _nested("{", n, "}", 5_000),
        _nested(r"\frac{1}{1+", n, "}", 50),
        _nested(r"\frac{1}{1+", n, "}", 500),
        _nested(r"\left(", n, r"\right)", 800),
        _nested(r"\sin(", n, ")", 50),
        _nested("|", n, "|", 400),
        _nested("e^{", n, "}", 40),
        _nested(r"\lfloor ", n, r"\rfloor ", 60),
        _nested("-", n, "", 1_500),
        _nested("2^", n, "", 300),
        "9" * 1_000_000 + n,
        "9" * 1_900 + n,
        "0." + "3" * 1_900 + n,
        "1" + "0" * 400 + f"^{{{n}00}}",
        "+".join(rf"\sqrt{{{k}}}" for k in range(2, 120)) + f"+{n}",
        "+".join(rf"\sqrt[{k}]{{{k + 1}}}" for k in range(2, 80)) + f"+{n}",
        r"\cdot".join(f"(x+{k})" for k in range(1, 200)) + n,
        r"\begin{pmatrix}"
        + r"\\".join("&".join(f"x_{{{i}}}" for i in range(12)) for _ in range(12))
        + r"\end{pmatrix}^{50}",
        r"\begin{pmatrix}" + r"\\".join("&".join("1" * 12) for _ in range(40)) + r"\end{pmatrix}" + n,
        r"\det\begin{pmatrix}"
        + r"\\".join("&".join(f"a_{{{i}{j}}}" for i in range(8)) for j in range(8))
        + r"\end{pmatrix}",
        rf"\int_0^1 \frac{{x^{{{n}0}}\sin(x^{{{n}}})e^{{-x^2}}\ln(1+x)}}{{1+x^{{{n}7}}}} dx",
        rf"\int_0^{{\infty}} \frac{{\sin x^{{{n}}}}}{{x^5+\cos x}} dx",
        rf"\sum_{{k=1}}^{{10^{{9}}}} \frac{{1}}{{k^{n}+\sin k}}",
        rf"\prod_{{k=1}}^{{10^{{8}}}} (k+\sqrt{{{n}}})",
        rf"\lim_{{x\to 0}} \frac{{\sin(\tan x)-\tan(\sin x)}}{{x^{{{n}}}}}",
        f"x^{{{n}00}}+x^{{{n}}}-1 < 0",
        rf"\gcd(10^{{10^{{8}}}}+{n}, 10^{{10^{{7}}}}+1)",
        r"\frac{" * 300 + n,
        "}" * 500 + "{" * 500 + n,
        r"\left[" * 100 + r"\right\}" * 99 + n,
        "$" * 999 + "\\" * 999 + n,
        ",".join(rf"\frac{{{k}}}{{\sqrt{{{k + 1}}}}}" for k in range(1, 70)) + f",{n}",
    ]
    golds = ["5", r"2\sqrt{3}", r"\frac{\pi}{2}", "x^2+1", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"]
    return [(golds[k % len(golds)], rf"So the answer is \boxed{{{answer}}}.") for k, answer in enumerate(answers)]
