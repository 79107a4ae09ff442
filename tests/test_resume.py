"""A run that is killed, stopped or shared by two processes ends with the weights of one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toy_runs import RECIPES, run_stage

from dmn4.files import load_tensors, write_file
from dmn4.training.runs import Run, log_text, read_log
from dmn4.training.train import start_model

TOY = Path(__file__).with_name("toy_runs.py")
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def state(folder):
    tensors, about = load_tensors(folder / "last.safetensors")
    return tensors, int(about["step"])


def test_a_run_killed_before_its_first_row_still_writes_a_header(tmp_path):
    run = Run(tmp_path, {})
    write_file(tmp_path / "log.csv", log_text([]))
    run.log(step=1, loss=0.5)
    assert read_log(tmp_path / "log.csv")[0]["loss"] == "0.5"


def logged(folder):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in read_log(folder / "log.csv")]


def saved_steps(folder):
    """The step of the saved state; 0 if it was replaced while it was read."""
    try:
        return state(folder)[1]
    except RuntimeError:
        return 0


def kill_after(process, folder, steps):
    """Kill the process for good once it has saved this many steps; the step it had saved."""
    while process.poll() is None:
        if (folder / "last.safetensors").exists() and saved_steps(folder) >= steps:
            time.sleep(random.random() * 0.1)                      # anywhere inside a step, or inside a write
            process.kill()
            process.wait()
        time.sleep(0.02)
    return process.returncode


@pytest.mark.parametrize("stage", ["pretrain", "train", "searched"])
def test_a_run_killed_at_a_random_moment_and_resumed_ends_bit_identical(stage, tmp_path):
    run_stage(stage, tmp_path / "whole")
    command = [sys.executable, str(TOY), stage, str(tmp_path / "killed")]
    process = subprocess.Popen(command, env=ALONE)
    assert kill_after(process, tmp_path / "killed", random.randint(1, 15)) == -signal.SIGKILL
    assert state(tmp_path / "killed")[1] < 30
    subprocess.run(command, env=ALONE, check=True)

    (whole, steps), (killed, killed_steps) = state(tmp_path / "whole"), state(tmp_path / "killed")
    assert steps == killed_steps == 30
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    assert logged(tmp_path / "whole") == logged(tmp_path / "killed")
    selected = [load_tensors(tmp_path / name / "backbone.safetensors")[0] for name in ("whole", "killed")]
    assert all(torch.equal(selected[0][name], selected[1][name]) for name in selected[0])


def test_a_run_asked_to_stop_ends_its_step_and_goes_on_from_there(tmp_path, monkeypatch):
    run_stage("shared", tmp_path / "whole")
    asked = []

    def stop_once(run):
        asked.append(1)
        if len(asked) == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("dmn4.training.runs.Run.wait_while_paused", stop_once)
    assert run_stage("shared", tmp_path / "stopped").stopping
    assert state(tmp_path / "stopped")[1] == 7
    assert not run_stage("shared", tmp_path / "stopped", resume=True).stopping
    whole, stopped = state(tmp_path / "whole")[0], state(tmp_path / "stopped")[0]
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_a_run_waits_while_there_is_a_pause_file(tmp_path):
    (tmp_path / "pause").touch()
    recipe = replace(RECIPES["pretrain"], epochs=1)
    process = subprocess.Popen([sys.executable, "-c", f"""
import sys; sys.path.insert(0, {str(TOY.parent)!r})
from toy_runs import *
from dataclasses import replace
run_stage("pretrain", {str(tmp_path)!r}, recipe=replace(RECIPES["pretrain"], epochs=1))"""], env=ALONE)
    while not (tmp_path / "settings.json").exists():
        time.sleep(0.05)
    time.sleep(2)
    assert process.poll() is None
    assert not (tmp_path / "last.safetensors").exists()
    (tmp_path / "pause").unlink()
    assert process.wait(120) == 0
    assert state(tmp_path)[1] == recipe.epochs * 6


@pytest.mark.parametrize("stage", ["train", "shared"])
def test_two_processes_learn_the_weights_of_one(stage, tmp_path):
    """Batch norm uses the statistics of an episode, or of the common batch, on every process; the running averages,
    which training does not use, are those of the first process."""
    run_stage(stage, tmp_path / "one")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           str(TOY), stage, str(tmp_path / "two"), "2"], env=ALONE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = state(tmp_path / "one")[0], state(tmp_path / "two")[0]
    for name, _ in start_model(RECIPES[stage]).named_parameters():
        torch.testing.assert_close(one[f"network.{name}"], two[f"network.{name}"], atol=1e-5, rtol=1e-4)
