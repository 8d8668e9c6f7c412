"""A stage with state, which VERL_USE_EXTERNAL_MODULES loads in every process of the smoke run."""

import upside


@upside.register_stage("smoke_counter", kind="augment", zero_on_constant=True)
class Counter:
    """Counts the training batches it has seen, and changes nothing."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rollouts, advantages):
        self.calls += rollouts.training
        return advantages

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]
