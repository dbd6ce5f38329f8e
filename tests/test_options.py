"""Option values: right ones pass, wrong ones say what would be right."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from voice.cli import main
from voice.options import not_negative, port, positive


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(positive, "3", 3), (port, "0", 0), (port, "65535", 65535), (not_negative, "0", 0.0), (not_negative, "0.5", 0.5)],
)
def test_right_values(kind: Callable[[str], float], text: str, value: float) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [(positive, bad) for bad in ("0", "-1", "1.5", "x", "", "²")]
    + [(port, bad) for bad in ("65536", "-1", "http", "")]
    + [(not_negative, bad) for bad in ("-0.1", "nan", "inf", "x", "")],
)
def test_wrong_values_are_named(kind: Callable[[str], float], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a"):
        kind(text)


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--nope"], ["serve", "--port", "abc"], ["nothing"], [], ["ask"], ["bench"], ["serve", "--llm"]],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("voice: ") and output.err.count("\n") == 1
    assert "--help" in output.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("voice 0.")
