"""verl's custom reward function of the smoke run: right or wrong, and a score shaped apart from it."""

from upside.tasks import Problem, load_task

TASK = load_task("arithmetic")


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    verdict = TASK.verify(Problem("", "", ground_truth), solution_str)
    return {"score": 2.0 * verdict.score - 0.5, "correct": bool(verdict.correct)}
