"""The child process's life, with small Python programs in place of the real server."""

from __future__ import annotations

import io
import os
import sys
import time

import pytest

from voice.client.server_process import ServerProcess
from voice.errors import ServiceError

READY = "import sys, time\nprint('loading', file=sys.stderr)\nprint('ready http://127.0.0.1:4321', flush=True)\n"


def server(code: str, *options: str, **kwargs: float) -> tuple[ServerProcess, io.StringIO]:
    heard = io.StringIO()
    made = ServerProcess(options, command=[sys.executable, "-c", code], forward=heard, **kwargs)
    return made, heard


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_starts_tells_its_address_and_ends() -> None:
    process, heard = server(READY + "time.sleep(600)")
    with process:
        assert process.url == "http://127.0.0.1:4321"
        pid = process.pid
        assert pid is not None and alive(pid)
    assert not alive(pid)
    assert heard.getvalue() == "loading\n"
    process.stop()  # again, harmlessly


def test_options_are_passed_on() -> None:
    code = "import sys\nprint('other line')\nprint('ready', 'http://' + '_'.join(sys.argv[1:]), flush=True)\ninput()"
    process, _ = server(code, "--llm", "x")
    with process:
        assert process.url == "http://--llm_x"


def test_its_last_words_are_the_reason() -> None:
    code = "import sys\nprint('loading', file=sys.stderr)\nprint('voice: no such model', file=sys.stderr)\nsys.exit(2)"
    process, heard = server(code)
    with pytest.raises(ServiceError, match=r"^the server did not start: no such model$"):
        process.start()
    assert process.pid is None
    assert heard.getvalue() == "loading\n"  # said once, not twice


def test_progress_is_not_taken_for_the_reason() -> None:
    code = "import os, signal, sys\nprint('voice: warming up', file=sys.stderr)\nos.kill(os.getpid(), signal.SIGKILL)"
    process, heard = server(code)
    with pytest.raises(ServiceError, match=r"was killed by SIGKILL before it was ready: voice: warming up$"):
        process.start()
    assert heard.getvalue() == "voice: warming up\n"


def test_a_crash_without_a_message_for_people() -> None:
    process, heard = server("import sys\nprint('voice: a warning', file=sys.stderr)\nraise ValueError('surprise')")
    with pytest.raises(ServiceError, match=r"ended with exit code 1 before it was ready: ValueError: surprise$"):
        process.start()
    assert heard.getvalue().startswith("voice: a warning\nTraceback")


def test_death_by_signal_and_without_a_word() -> None:
    process, _ = server("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ServiceError, match=r"^the server was killed by SIGKILL before it was ready$"):
        process.start()


def test_a_server_that_never_gets_ready_is_stopped() -> None:
    process, _ = server("import time\ntime.sleep(600)", timeout_s=0.2)
    with pytest.raises(ServiceError, match="was not ready after"):
        process.start()
    assert process.pid is None


def test_a_server_that_will_not_go_is_killed_with_its_children() -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('ready', f'http://{child.pid}', flush=True)\n"
        "time.sleep(600)\n"
    )
    process, _ = server(code, stop_timeout_s=0.2)
    with process:
        pid, child = process.pid, int(process.url.removeprefix("http://"))
        assert pid is not None
    assert not alive(pid)
    for _ in range(100):  # an orphan is reaped by init, in its own time
        if not alive(child):
            break
        time.sleep(0.02)
    status = f"/proc/{child}/stat"
    assert not alive(child) or (os.path.exists(status) and " Z " in open(status).read())  # noqa: PTH110, PTH123, SIM115


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(ServiceError, match="could not be started"):
        ServerProcess(command=["/nonexistent/python"]).start()
