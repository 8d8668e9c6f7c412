from __future__ import annotations

from upside.analysis.blocks import Chart, Section, Series
from upside.analysis.page.render import Styles


def test_a_key_has_one_colour_on_the_page_and_its_series_a_dash_each() -> None:
    one = Chart("a", "x", "y", [Series("grpo-s0", [], [], key="grpo"), Series("aapo-s0", [], [], key="aapo")])
    two = Chart("b", "x", "y", [Series("aapo-s0", [], [], key="aapo"), Series("grpo-s1", [], [], key="grpo")])
    styles = Styles([Section("s", "S", [one]), Section("t", "T", [two])])
    assert styles.of(one.series[0]) == {"colour": 0, "dash": 0}
    assert styles.of(two.series[0]) == styles.of(one.series[1]) == {"colour": 1, "dash": 0}
    assert styles.of(two.series[1]) == {"colour": 0, "dash": 1}
    assert (styles.colours["grpo"], styles.colours["aapo-s0"]) == (0, 1)


def test_the_ninth_key_has_the_first_colour_dashed() -> None:
    chart = Chart("a", "x", "y", [Series(str(number), [], []) for number in range(9)])
    assert Styles([Section("s", "S", [chart])]).of(chart.series[8]) == {"colour": 0, "dash": 1}
