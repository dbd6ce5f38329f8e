"""Truth gates: what Whisper invents does not pass, what people say does."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from voice.hearing.gates import Verdict, collapsed, judge, looped, without_tags
from voice.hearing.words import plain

OKAY = "Okay then. " * 25


def verdict(
    text: str, no_speech: float = 0.05, log: float = -0.2, seconds: float = 5.0, vocabulary: str | None = None
) -> Verdict:
    """The verdict on a decode that is good unless told otherwise."""
    return judge(
        text, no_speech_probability=no_speech, average_log_probability=log, seconds=seconds, vocabulary=vocabulary
    )


@pytest.mark.parametrize(
    "text",
    [
        "[BLANK_AUDIO]",
        "(music)",
        "[ Silence ]",
        "*coughs*",
        "(upbeat music)",
        "[SPEAKING CHINESE]",
        "♪ la la ♪",
        "♪♪ la la ♪♪",
        "♪",
        "🎵🎶🎵",
        " [Music] (applause). ",
        "[ (music) ]",
        "（音乐）",
        "【音楽】",
        "(müzik çalıyor)",
        "[...]",
    ],
)
def test_only_tags(text: str) -> None:
    assert without_tags(text) == ""
    assert verdict(text) == Verdict("", "tags")


@pytest.mark.parametrize("text", ["", "  ", ".", "...", " - ", "?!", "。", "…", "¿", "_", "👍"])
def test_nothing_speakable(text: str) -> None:
    assert without_tags(text) == ""
    assert verdict(text) == Verdict("", None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[noise] Hello there.", "Hello there."),
        ("Hello (laughs) there.", "Hello there."),
        ("Hello [noise], world (music) .", "Hello, world."),
        ("[Music]. So, hello.", "So, hello."),
        ("What is this? *sighs*", "What is this?"),
        ("**bold** move", "move"),
        ("♪ la la ♪ What time is it?", "What time is it?"),
        ("♪ la la ♪ hello ♪ la la ♪", "hello"),
        ("♪ What time is it?", "What time is it?"),
        ("Merhaba (gülüyor) İzmir'deyim.", "Merhaba İzmir'deyim."),
        ("（音乐）今天天气怎么样？", "今天天气怎么样？"),
    ],
)
def test_tags_within_text(text: str, left: str) -> None:
    assert without_tags(text) == left
    assert verdict(text) == Verdict(left, "tags")


@pytest.mark.parametrize(
    "text",
    [
        "What the f*** is this s***?",
        "Two * three is six.",
        "Well,  hello .",
        "(music that the token limit cut",
        "Çocuğun adı Işıl.",
        "今天天气怎么样？",
        "สวัสดีครับ",
    ],
)
def test_no_tags(text: str) -> None:
    assert without_tags(f" {text}\n") == text
    assert verdict(text) == Verdict(text, None)


def test_silence_needs_both_numbers() -> None:
    thanks = "Thank you for watching."
    assert verdict(thanks, 0.05, -0.2) == Verdict(thanks, None)
    assert verdict(thanks, 0.9, -1.2) == Verdict("", "no_speech")
    assert verdict(thanks, 0.9, -0.2) == Verdict(thanks, None)
    assert verdict(thanks, 0.05, -1.2) == Verdict(thanks, None)
    assert verdict(thanks, 0.6, -1.2) == Verdict(thanks, None)
    assert verdict(thanks, 0.9, -1.0) == Verdict(thanks, None)
    assert verdict("[noise] " + thanks, 0.9, -1.2) == Verdict("", "no_speech")
    assert verdict("İzlediğiniz için teşekkürler.", 0.9, -1.2) == Verdict("", "no_speech")


@pytest.mark.parametrize(
    ("text", "vocabulary", "echo"),
    [
        ("Kubernetes, Grafana.", "Grafana, Kubernetes, Piper", True),
        ("kubernetes", "Grafana,Kubernetes,Piper", True),
        ("Kubernetes,Grafana", "Grafana/Kubernetes", True),
        ("Talk to Doctor Yıldız", "We talk to doctor Yıldız about Piper.", True),
        ("Open Grafana.", "Grafana, Kubernetes", False),
        ("Graf", "Grafana", False),
        ("北京，上海", "上海、北京", True),
        ("我去北京", "上海、北京", False),
        ("Grafana", "", False),
        ("Grafana", None, False),
    ],
)
def test_vocabulary_in_silence(text: str, vocabulary: str | None, echo: bool) -> None:
    assert verdict(text, 0.7, -0.2, vocabulary=vocabulary) == (
        Verdict("", "only_vocabulary") if echo else Verdict(text, None)
    )
    assert verdict(text, 0.6, -0.2, vocabulary=vocabulary) == Verdict(text, None)
    assert verdict(text, 0.7, -1.2, vocabulary=vocabulary) == Verdict("", "no_speech")


def test_too_fast() -> None:
    sixteen = " ".join(f"w{number}" for number in range(16))
    assert verdict(sixteen, seconds=2.0) == Verdict(sixteen, None)
    assert verdict(sixteen, seconds=1.99) == Verdict("", "too_fast")
    assert verdict(OKAY, seconds=3.0) == Verdict("", "too_fast")


def test_short_clips() -> None:
    assert verdict("yes please do", seconds=0.3) == Verdict("yes please do", None)
    assert verdict("yes please do it", seconds=0.3) == Verdict("", "too_fast")
    assert verdict("yes", seconds=0.0) == Verdict("", "too_fast")
    assert verdict("yes", seconds=-1.0) == Verdict("", "too_fast")
    assert verdict("yes", seconds=float("nan")) == Verdict("", "too_fast")
    assert verdict(" - ", seconds=0.0) == Verdict("", None)


def test_too_fast_without_spaces() -> None:
    assert verdict("今天天气怎么样我们去", seconds=0.625) == Verdict("今天天气怎么样我们去", None)
    assert verdict("今天天气怎么样我们去公园", seconds=0.625) == Verdict("", "too_fast")
    assert verdict("きょうはいいてんきですね。", seconds=1.5) == Verdict("きょうはいいてんきですね。", None)
    thai = "วันนี้อากาศเป็นอย่างไรบ้างครับ"  # 9 syllables
    assert verdict(thai, seconds=1.2) == Verdict(thai, None)
    assert verdict(thai, seconds=0.4) == Verdict("", "too_fast")


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("one two six nine six nine six nine six nine", "one two six nine six nine"),
        ("Six nine. six Nine, SIX-NINE six nine, six nine!", "Six nine. six Nine, SIX-NINE six nine, six nine!"),
        ("Six nine. six Nine, SIX NINE six nine!", "Six nine. six Nine,"),
        ("no no no no no no", "no no"),
        ("No, no! NO no no no... no no no, I said.", "No, no! I said."),
        (OKAY, "Okay then. Okay then."),
        (
            "I am here. You are there. " * 4 + "Who is it?",
            "I am here. You are there. I am here. You are there. Who is it?",
        ),
        ("a b c d e f g h i j k l " * 3, "a b c d e f g h i j k l a b c d e f g h i j k l"),
        ("six - nine - six - nine - six - nine", "six - nine - six - nine -"),
        ("go on\ngo on\ngo on\ngo on", "go on\ngo on"),
        # The token limit cut the last round.
        ("Okay then. Okay then. Okay then. Okay", "Okay then. Okay then."),
        ("Okay then. Okay then. Okay then. Okay th", "Okay then. Okay then."),
        ("no no no no no no no n", "no no"),
        # Not cut: it goes on.
        ("I want to go, I want to go, I want to go, I want tea", "I want to go, I want to go, I want tea"),
        ("I want tea I want tea I want tea I want to", "I want tea I want tea I want to"),
        # A loop of loops.
        ("so so so so so so so be it " * 3, "so so be it so so be it"),
        ("a b a b a b c " * 3, "a b a b c a b a b c"),
        ("Tamam o zaman. TAMAM O ZAMAN! " * 3, "Tamam o zaman. TAMAM O ZAMAN!"),
        ("İyi günler. iyi günler. " * 2, "İyi günler. iyi günler."),
        ("请订阅我的频道。" * 4, "请订阅我的频道。请订阅我的频道。"),
        ("请订阅我的频道。" * 3 + "请订阅", "请订阅我的频道。请订阅我的频道。"),
        ("好的，" * 6 + "再见", "好的，好的，再见"),
        ("哈" * 11, "哈哈"),
        ("ขอบคุณครับ" * 4, "ขอบคุณครับขอบคุณครับ"),
        ("好b好b好b cd", "好b好b cd"),
    ],
)
def test_loops(text: str, once: str) -> None:
    assert collapsed(text) == once
    assert collapsed(once) == once
    assert verdict(text, seconds=30.0) == Verdict(once, None if once == text else "looped")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ...  ",
        "no no no",
        "No, no, no, no, no!",
        "bye bye",
        "knock knock, knock knock",
        "one two one two one",
        "a b c d e f g h i j k l m " * 3,
        " Spaces   stay\tas they are. ",
        "很好很好很好",
        "谢谢谢谢谢谢",
        "哈" * 10,
        "yavaş yavaş geliyor, yavaş yavaş",
        "का की के",
    ],
)
def test_not_loops(text: str) -> None:
    assert collapsed(text) == text
    assert not looped(text)


def test_tags_within_a_loop() -> None:
    assert verdict("Okay then. (music) " * 3) == Verdict("Okay then. Okay then.", "looped")


def test_looped() -> None:
    assert looped(OKAY)
    assert looped("no no no no no no")  # 2 of 6 stay
    assert not looped("no no no no no")
    assert not looped("six nine six nine six nine")  # 4 of 6 stay
    assert not looped("six nine six nine six nine six nine")  # 4 of 8: not more than half
    assert looped("six nine six nine six nine six nine six nine")
    assert looped("x" * 200)
    assert not looped("x" * 63)
    assert looped("请不吝点赞订阅转发打赏支持明镜与点点栏目" * 5)
    assert not looped("Bugün hava nasıl olacak, ve yarın sabah İstanbul'dan Ankara'ya giderken şemsiye almalı mıyım?")
    assert not looped("今天天气怎么样？如果下午不下雨的话，我想和朋友们一起去公园散步，然后在附近的餐馆吃晚饭。")


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{number}" for number in range(5000)),
        "so " * 5000,
        "a b a b c " * 1000,
        "我们今天去公园" * 700,
        "ขอบคุณครับ" * 500,
        "(" * 5000,
        "♪ *" * 2000,
    ],
)
def test_long_texts_are_quick(text: str) -> None:
    start = time.process_time()
    verdict(text, seconds=1e6)
    assert time.process_time() - start < 1.5


WORDS = st.sampled_from(["six", "Six,", "nine", "no", "No!", "then.", "İyi", "iyi", "gün", "-"])
LOOPS = st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=13), st.integers(1, 8)), max_size=6).map(
    lambda parts: " ".join(" ".join(phrase * times) for phrase, times in parts)
)
MIXED = st.text(alphabet="好的 ab,กา。", max_size=80)
DISTINCT = st.lists(
    st.text(alphabet="abcçdefgğhıijklmnoöprsştuüvyzабвгдежзαβγδεABCÇİI0123456789'", min_size=1).filter(plain),
    min_size=1,
    max_size=60,
    unique_by=plain,
).map(" ".join)


def most_rounds(words: list[str], shortest: int, longest: int) -> int:
    """The most rounds in a row of any phrase of so many words (by brute force)."""
    most = 0
    for size in range(shortest, longest + 1):
        for start in range(len(words) - size + 1):
            phrase, rounds = words[start : start + size], 1
            while words[start + rounds * size : start + (rounds + 1) * size] == phrase:
                rounds += 1
            most = max(most, rounds)
    return most


@settings(deadline=None)
@given(LOOPS | MIXED | st.text())
@example("好b好b好b c")
def test_collapsing_twice_changes_nothing(text: str) -> None:
    once = collapsed(text)
    assert collapsed(once) == once
    assert len(once) <= len(text)
    assert without_tags(without_tags(text)) == without_tags(text)


@settings(deadline=None)
@given(LOOPS)
def test_no_loop_is_believed(text: str) -> None:
    words = [word for word in map(plain, verdict(text, seconds=1e6).text.split()) if word]
    assert most_rounds(words, 2, 12) <= 2
    assert most_rounds(words, 1, 1) <= 5


@settings(deadline=None)
@given(st.text(alphabet="好的我", max_size=80))
def test_no_loop_without_spaces_is_believed(text: str) -> None:
    for loop in re.finditer(r"(?=(.{3,24}?)\1\1)", verdict(text, seconds=1e6).text):
        assert re.fullmatch(r"(..?)\1+", loop[1])


@settings(deadline=None)
@given(DISTINCT, st.sampled_from(["", " ", "\n "]))
def test_speech_passes(text: str, around: str) -> None:
    assert verdict(around + text + around, seconds=100.0) == Verdict(text, None)
    assert collapsed(around + text + around) == around + text + around
    assert verdict(f"(music) {text} [noise]", seconds=100.0) == Verdict(text, "tags")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["six", "nine,", "no", "then."]), min_size=1, max_size=60))
def test_case_and_white_space_are_not_compared(words: list[str]) -> None:
    text = " ".join(words)
    assert collapsed(text.upper()) == collapsed(text).upper()
    assert collapsed("\n".join(words)).split() == collapsed(text).split()
    assert collapsed("Well, " + text) == "Well, " + collapsed(text)
    assert looped(text) or len(collapsed(text).split()) * 2 >= len(words)


@settings(deadline=None)
@given(LOOPS | MIXED | st.text(), st.floats(0.0, 1.0), st.floats(-5.0, 0.0), st.floats(0.0, 60.0), st.none() | LOOPS)
def test_verdicts_are_final(text: str, no_speech: float, log: float, seconds: float, vocabulary: str | None) -> None:
    first = verdict(text, no_speech, log, seconds, vocabulary)
    if first.reason in {"no_speech", "only_vocabulary", "too_fast"}:
        assert first.text == ""
    if first.text:
        again = verdict(first.text, 0.0, 0.0, seconds)
        assert again == Verdict(first.text, None)
