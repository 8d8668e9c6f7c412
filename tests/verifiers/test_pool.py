"""The worker processes: real ones, really killed."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from upside.verifiers.pool import Pool, shared_pool
from upside.verifiers.worker import ANSWERS_A_CHILD, Supervisor

HANGS = ("5", r"9^{9^{9^9}}")
SURD = (r"\sqrt{8}", r"2\sqrt{2}")
FORKS = sys.platform.startswith("linux")
pytestmark = pytest.mark.skipif(not FORKS, reason="the tests look processes up in /proc")


@pytest.fixture(scope="module")
def pool():
    pool = Pool(workers=2, memory=512)
    yield pool
    pool.close()


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def in_background(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    return thread, results


def busy_child(pool):
    """The child that works on a hanging answer, and its supervisor: the one that takes processor time."""

    def ticks(pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])

    pairs = [(child, supervisor) for supervisor in pool.processes() for child in children(supervisor)]
    before = {child: ticks(child) for child, _ in pairs}
    found = []
    until(lambda: found.extend(p for p in pairs if ticks(p[0]) > before[p[0]] + 5) or found)
    return found[0]


# the pool


def test_outcomes_in_order(pool):
    jobs = [SURD, ("1", "x"), HANGS, (r"\frac{1}{", "1"), (r"\pi", r"\frac{"), (r"\pi", r"\pi + 0")] * 3
    expected = ["correct", "wrong", "timeout", "gold", "unparsed", "correct"] * 3
    assert pool.run(jobs, limit=0.3) == expected
    assert pool.run([], limit=1.0) == []


def test_the_limit_is_wall_clock_and_kills(pool):
    # Math-Verify#65, #63, #59, Gym#1354, opencompass#2478, simpleRL#95: its own timeout does not end C code
    pool.run([SURD], limit=1.0)
    start = time.monotonic()
    assert pool.run([HANGS], limit=0.5) == ["timeout"]
    assert time.monotonic() - start < 5.0  # three limits where the machine is busy, and what a fork takes
    assert pool.run([SURD], limit=1.0) == ["correct"]


def test_a_child_killed_in_the_middle_is_an_error_and_replaced(pool):
    pool.run([SURD] * 4, limit=1.0)
    thread, results = in_background(lambda: pool.run([HANGS, SURD], limit=60.0))
    child, supervisor = busy_child(pool)
    os.kill(child, signal.SIGKILL)
    thread.join(30)
    assert results == [["error", "correct"]]
    assert supervisor in pool.processes()
    assert child not in children(supervisor)


def test_a_killed_supervisor_is_replaced_and_its_answers_asked_again(pool):
    pool.run([SURD] * 4, limit=1.0)
    thread, results = in_background(lambda: pool.run([HANGS, *[SURD] * 7], limit=2.0))
    child, supervisor = busy_child(pool)
    os.kill(supervisor, signal.SIGKILL)
    thread.join(60)
    assert results == [["timeout", *["correct"] * 7]]
    assert supervisor not in pool.processes()
    until(lambda: not alive(child))  # it went with its supervisor


def test_an_answer_that_costs_two_supervisors_is_an_error(pool):
    pool.run([SURD] * 4, limit=1.0)
    thread, results = in_background(lambda: pool.run([HANGS, SURD], limit=60.0))
    for _ in range(2):
        _, supervisor = busy_child(pool)
        os.kill(supervisor, signal.SIGKILL)
        until(lambda gone=supervisor: gone not in pool.processes())
        until(lambda: all(children(pid) for pid in pool.processes()))
    thread.join(60)
    assert results == [["error", "correct"]]


def test_many_threads(pool):
    # Math-Verify#55, #50, trl#5281: signal.alarm works in the main thread only
    threads = [in_background(lambda k=k: pool.run([SURD, (str(k), rf"\sqrt{{{k * k}}}")], limit=5.0)) for k in range(6)]
    for thread, _ in threads:
        thread.join(60)
    assert [results for _, results in threads] == [[["correct", "correct"]]] * 6


def test_the_thread_that_started_the_workers_may_end():
    pool = Pool(workers=1, memory=512)
    thread, results = in_background(lambda: pool.run([SURD], limit=5.0))
    thread.join(60)
    first = pool.processes()
    assert results == [["correct"]]
    assert pool.run([SURD], limit=5.0) == ["correct"]
    assert pool.processes() == first
    pool.close()
    assert pool.processes() == []
    assert not any(alive(pid) for pid in first)


def test_a_fork_has_its_own_workers(pool):
    pool.run([SURD], limit=5.0)
    mine = set(pool.processes())
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        fine = pool.processes() == [] and pool.run([SURD], limit=5.0) == ["correct"] and not mine & {*pool.processes()}
        pool.close()
        os.write(write, b"y" if fine else b"n")
        os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.waitpid(pid, 0)
    assert set(pool.processes()) == mine
    assert pool.run([SURD], limit=5.0) == ["correct"]


def test_workers_see_no_secrets_and_use_one_thread(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret-token")
    pool = Pool(workers=1, memory=512)
    pool.run([SURD], limit=5.0)
    environment = Path(f"/proc/{pool.processes()[0]}/environ").read_bytes()
    assert b"secret-token" not in environment
    assert b"OMP_NUM_THREADS=1" in environment
    assert pool.processes() != []
    pool.close()


def test_nothing_grows_over_ten_thousand_answers_of_a_pool(pool):
    def state():
        resident = [
            int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for pid in (os.getpid(), *pool.processes())
        ]
        return len(os.listdir("/proc/self/fd")), children(os.getpid()), resident

    jobs = [("1", "x"), ("x", "x+0"), ("x", "x^"), SURD] * 250
    pool.run(jobs, limit=5.0)
    files, processes, resident = state()
    for _ in range(10):
        assert pool.run(jobs, limit=5.0) == ["wrong", "correct", "unparsed", "correct"] * 250
    after = state()
    assert after[:2] == (files, processes)
    assert all(new - old < 16 * 1024 * 1024 for old, new in zip(resident, after[2], strict=True))


def test_workers_that_cannot_start_say_why(tmp_path, monkeypatch):
    (tmp_path / "latex2sympy2_extended.py").write_text("raise ImportError('not for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool = Pool(workers=1, memory=512)
    with pytest.raises(RuntimeError, match=r"cannot start: ImportError: not for this machine; it needs math-verify"):
        pool.run([SURD], limit=1.0)
    assert pool.processes() == []


def test_shared_pools_are_one_per_shape():
    assert shared_pool(2, 300) is shared_pool(2, 300)
    assert shared_pool(2, 300) is not shared_pool(3, 300)
    assert shared_pool(2, 300).processes() == []  # nothing starts before it is used


OWNER = """
import json, sys, threading, time
from upside.verifiers.pool import shared_pool
pool = shared_pool(2, 512)
pool.run([(r"\\sqrt{8}", r"2\\sqrt{2}")] * 8, limit=5.0)
print(json.dumps(pool.processes()), flush=True)
try:
    pool.run([("5", "9^{9^{9^9}}")] * 2, limit=600.0)
except KeyboardInterrupt:
    print(json.dumps([pool.processes(), pool.run([(r"\\sqrt{8}", r"2\\sqrt{2}")], limit=5.0)]), flush=True)
"""


def start_owner():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    supervisors = json.loads(owner.stdout.readline())
    until(lambda: all(children(pid) for pid in supervisors))
    time.sleep(0.3)  # in the middle of the hanging answers
    return owner, [*supervisors, *(child for pid in supervisors for child in children(pid))]


def test_nothing_survives_a_killed_owner():
    owner, processes = start_owner()
    assert all(map(alive, processes))
    owner.kill()
    owner.communicate()
    until(lambda: not any(map(alive, processes)))


def test_a_fork_of_a_killed_owner_does_not_keep_its_workers():
    forks = OWNER.replace("try:", "if not os.fork():\n    time.sleep(60)\n    os._exit(0)\ntry:", 1).replace(
        "json,", "json, os,"
    )
    owner = subprocess.Popen([sys.executable, "-c", forks], stdout=subprocess.PIPE, text=True)
    supervisors = json.loads(owner.stdout.readline())
    until(lambda: len(children(owner.pid)) == 3)
    (fork,) = set(children(owner.pid)) - set(supervisors)
    owner.kill()
    owner.wait()
    until(lambda: not any(map(alive, supervisors)))
    assert alive(fork)
    os.kill(fork, signal.SIGKILL)
    owner.stdout.close()


def test_ctrl_c_leaves_nothing_behind_and_the_pool_usable():
    owner, processes = start_owner()
    owner.send_signal(signal.SIGINT)
    rest, result = json.loads(owner.stdout.readline())
    assert rest == []
    assert result == ["correct"]
    assert owner.wait(30) == 0
    until(lambda: not any(map(alive, processes)))


# the supervisor, with checks made for it


@pytest.fixture
def supervise():
    """supervise(check, memory) -> Supervisor in this process; closed after the test."""
    started = []
    read, write = os.pipe()

    def make(check, memory=64):
        started.append(Supervisor(check, memory, stdin=read))
        return started[-1]

    yield make
    for supervisor in started:
        supervisor.close()
    os.close(read)
    os.close(write)


def hostile(gold, answer):
    """A checker that does what the answer says."""
    if answer == "sleep with signals blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        time.sleep(60)
    elif answer == "spin":
        while True:
            pass
    elif answer == "allocate":
        return str(len(bytearray(1 << 30)))
    elif answer == "allocate and swallow":
        kept = []
        try:
            while True:
                kept.append(bytearray(1 << 20))
        except MemoryError:
            kept.clear()
            return "wrong"
    elif answer == "crash":
        ctypes.string_at(0)
    elif answer == "exit":
        os._exit(0)
    elif answer == "raise":
        raise RuntimeError("no")
    elif answer == "recurse":
        return hostile(gold, answer)
    elif answer == "print":
        os.write(1, b"correct\n")
        os.write(2, b"correct\n")
    return "correct" if gold == answer else "wrong"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("sleep with signals blocked", "timeout"),
        ("spin", "timeout"),
        ("allocate", "timeout"),
        ("allocate and swallow", "timeout"),
        ("crash", "error"),
        ("exit", "error"),
        ("raise", "error"),
        ("recurse", "error"),
        ("print", "wrong"),
    ],
)
def test_whatever_a_check_does_the_next_answer_is_judged(supervise, answer, outcome):
    supervisor = supervise(hostile)
    assert supervisor.judge([["1", "1"], ["1", answer], ["1", "1"], ["1", "2"]], limit=0.3) == [
        "correct",
        outcome,
        "correct",
        "wrong",
    ]


def test_nothing_grows_over_ten_thousand_answers(supervise):
    supervisor = supervise(hostile)

    def state():
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return len(os.listdir("/proc/self/fd")), len(children(os.getpid())), resident

    supervisor.judge([["1", "1"]] * 1_000, limit=5.0)
    files, processes, resident = state()
    for k in range(100):
        outcomes = supervisor.judge([["1", "1"]] * 98 + [["1", "exit"], ["1", "1"]], limit=5.0)
        assert outcomes == ["correct"] * 98 + ["error", "correct"], k
    after = state()
    assert after[:2] == (files, processes)  # no descriptor, no zombie
    assert after[2] - resident < 8 * 1024 * 1024


def test_a_child_is_replaced_before_its_caches_grow(supervise):
    supervisor = supervise(lambda gold, answer: str(os.getpid()))
    pids = supervisor.judge([["1", "1"]] * (2 * ANSWERS_A_CHILD + 5), limit=5.0)
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [ANSWERS_A_CHILD, ANSWERS_A_CHILD, 5]
