"""What a stranger meets first: the import, the public names, the root command."""

import contextlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import typer
from typer.testing import CliRunner

import dmn4
from dmn4.cli.main import app, main


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, dmn4; print(sorted({'torch', 'sklearn', 'numpy', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", dmn4.__all__)
def test_public_names_are_there_when_they_are_used(name):
    assert getattr(dmn4, name) is not None
    assert name in dir(dmn4)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'dmn5'"):
        _ = dmn4.dmn5


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
def test_git_ignores_no_file_of_the_package():
    home = Path(dmn4.__file__).parent
    ask = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", "."]
    ignored = subprocess.run(ask, cwd=home, capture_output=True, text=True).stdout.splitlines()
    assert [name for name in ignored if "__pycache__" not in name] == []


def test_an_input_error_is_a_value_error():
    assert issubclass(dmn4.InputError, ValueError)


@pytest.mark.parametrize(("arguments", "message"), [
    (["evaluate", "--no-such-option"], "No such option"),
    (["no-such-command"], "No such command 'no-such-command'"),
    (["benchmark", "heads", "--case", "fortran"], "no case matches fortran"),
    (["benchmark", "heads", "--case", "5-way", "--method", "dmn5"], "unknown method 'dmn5'"),
    (["data", "inspect", "no/such/folder"], "'no/such/folder'"),
])
def test_a_mistake_is_one_line_and_exit_code_two(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("dmn4: error: ")
    assert error.count("\n") == 1
    assert message in error


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("dmn4.data.cache.clear", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main(["data", "clear"])
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "dmn4: error: interrupted\n"


def commands(group, path=()):
    for name, one in group.commands.items():
        yield from commands(one, (*path, name)) if hasattr(one, "commands") else [(*path, name)]


@pytest.mark.parametrize("command", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_every_command_explains_itself_with_an_example_of_its_own(command):
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"Example: dmn4 {' '.join(command)}" in shown.output


def test_the_version_is_printed(capsys):
    with contextlib.suppress(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dmn4 {dmn4.__version__}\n"


@pytest.mark.parametrize(("before", "after"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_a_command_lets_waiting_threads_rest_unless_told_otherwise(before, after, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", before or "")
    if before is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with contextlib.suppress(SystemExit):
        main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == after


def test_the_package_runs_as_a_command(capsys):
    with contextlib.suppress(SystemExit), mock.patch("sys.argv", ["dmn4", "--version"]):
        runpy.run_module("dmn4", run_name="__main__")
    assert capsys.readouterr().out == f"dmn4 {dmn4.__version__}\n"


@pytest.mark.parametrize("command", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_every_argument_and_option_says_what_it_is(command):
    group = typer.main.get_command(app)
    for name in command:
        group = group.commands[name]
    silent = [parameter.name for parameter in group.params if not parameter.help]
    assert not silent
