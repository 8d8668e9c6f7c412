"""verl engine: every estimator inside verl 0.9.1, without patching or forking it (docs/verl.md).

`plugin` is what verl loads in every process; `estimators` holds the registered functions; `trainer` the registered
trainer that measures what verl's own does not hand over; `check` proves all of it on a machine.
"""
