"""scripts/ with a stand-in for Python and pip: what is installed when, and what is said when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"

FAKE_PYTHON = r"""#!/bin/bash
log() { echo "$*" >>"$FAKE_LOG"; }
case "$*" in
    *'not (3, 11)'*) exit "${FAKE_OLD:-0}" ;;
    *'print("%d.%d"'*) echo 3.11 ;;
    *'import ensurepip'*) exit "${FAKE_NO_VENV:-0}" ;;
    '-m venv --clear '*)
        log venv
        mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo 'version = 3.11.7' >"$4/pyvenv.cfg" ;;
    *'pip --version') exit 0 ;;
    *'pip install'*)
        sleep "${FAKE_SLEEP:-0}"
        log "install ${*: -1} ${*: -4:1}"
        case "$* ${FAKE_FAIL:-}" in
            *--extra-index-url*' index') ;;
            *' index') echo 'ERROR: No matching distribution found for torch==2.13.0+cpu'; exit 1 ;;
            *' network') echo 'ERROR: Could not connect'; exit 1 ;;
        esac
        printf '#!/bin/bash\necho "voice $*"\n' >"$(dirname "$0")/voice"
        chmod +x "$(dirname "$0")/voice" ;;
    *"find_spec('torchaudio')"*) exit 1 ;;
    *'find_spec'*) exit 0 ;;
    *'import torchvision') exit 1 ;;
    *'pip uninstall'*) log "uninstall ${*: -1}" ;;
esac
"""


class Checkout:
    """A copy of the scripts in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root / "check out"
        self.log = root / "log"
        self.log.touch()
        shutil.copytree(SCRIPTS, self.root / "scripts")
        (self.root / "pyproject.toml").write_text("[project]\n")
        python = root / "python"
        python.write_text(FAKE_PYTHON)
        python.chmod(0o755)
        self.environ = {**os.environ, "PYTHON": str(python), "FAKE_LOG": str(self.log), "VOICE_EXTRA": "cpu"}

    def start(self, script: str, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.root / "scripts" / script), *arguments],
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str, **environ: str) -> tuple[int, str, str]:
        process = self.start(script, *arguments, **environ)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def steps(self) -> list[str]:
        """What was done since the last call."""
        lines = self.log.read_text().replace(f"{self.root}", "ROOT").splitlines()
        self.log.write_text("")
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_run_sets_up_and_the_second_does_nothing(checkout: Checkout) -> None:
    code, out, err = checkout.run("run")
    assert (code, out) == (0, "voice serve\n")  # standard output belongs to the command
    assert "setup: removing torchvision" in err
    assert [step.split(" --")[0] for step in checkout.steps()] == [
        "venv",
        "install ROOT[client,cpu]",
        "uninstall torchvision",
    ]
    assert checkout.run("run") == (0, "voice serve\n", "")
    assert checkout.steps() == []


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], "serve"),
        (["--port", "9000"], "serve --port 9000"),
        (["ask", "a b.wav", "--json"], "ask a b.wav --json"),
        (["--version"], "--version"),
    ],
)
def test_what_run_runs(checkout: Checkout, arguments: list[str], command: str) -> None:
    assert checkout.run("run", *arguments)[1] == f"voice {command}\n"


def test_more_extras_and_a_changed_project_install_again(checkout: Checkout) -> None:
    checkout.run("setup", "client")
    checkout.steps()
    checkout.run("setup", "client", "dev", "bench")
    assert [step.split()[1] for step in checkout.steps() if step.startswith("install")] == [
        "ROOT[bench,client,cpu,dev]"
    ]
    checkout.run("setup", "client")
    assert checkout.steps() == []
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    checkout.run("setup", "client")
    assert [step.split()[1] for step in checkout.steps() if step.startswith("install")] == [
        "ROOT[bench,client,cpu,dev]"
    ]


def test_a_missing_cpu_torch_is_looked_for_on_pytorchs_index(checkout: Checkout) -> None:
    code, _, err = checkout.run("setup", FAKE_FAIL="index")
    assert code == 0, err
    assert len([step for step in checkout.steps() if step.startswith("install")]) == 2


def test_a_failure_shows_pips_reason_and_leaves_no_stamp(checkout: Checkout) -> None:
    code, out, err = checkout.run("run", FAKE_FAIL="network")
    assert (code, out) == (2, "")
    assert "ERROR: Could not connect" in err
    assert "check the network" in err
    assert len([step for step in checkout.steps() if step.startswith("install")]) == 1
    assert checkout.run("run")[0] == 0
    assert any(step.startswith("install") for step in checkout.steps())


def test_an_interrupted_set_up_is_done_again(checkout: Checkout) -> None:
    process = checkout.start("setup", FAKE_SLEEP="3")
    deadline = time.monotonic() + 10
    while "venv" not in checkout.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert not (checkout.root / ".venv" / ".voice-setup").exists()
    assert checkout.run("setup")[0] == 0
    assert (checkout.root / ".venv" / ".voice-setup").exists()


def test_two_at_once_set_up_once(checkout: Checkout) -> None:
    both = [checkout.start("setup", FAKE_SLEEP="0.5") for _ in range(2)]
    errors = [process.communicate(timeout=30)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("waiting for another set-up" in error for error in errors) == 1
    assert len([step for step in checkout.steps() if step.startswith("install")]) == 1


def test_what_is_missing_is_named(checkout: Checkout) -> None:
    code, _, err = checkout.run("setup", FAKE_NO_VENV="1")
    assert code == 2
    assert "apt install python3.11-venv" in err
    code, _, err = checkout.run("setup", VOICE_EXTRA="tpu")
    assert (code, err) == (2, "setup: VOICE_EXTRA is 'tpu': it must be cpu or cuda\n")
