from __future__ import annotations

import os
from pathlib import Path

import pytest

from voice import hardware
from voice.errors import ResourceError

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file system of a machine that allows this process 8 CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_affinity_decides_without_a_quota(root: Path) -> None:
    assert hardware.allowed_cpus(root) == 8


def test_without_affinity_the_machine_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert hardware.allowed_cpus(root) == 10
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert hardware.allowed_cpus(root) == 1


@pytest.mark.parametrize(
    ("quota", "cpus"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("9900000 100000", 8), ("", 8)]
)
def test_cgroup_v2_quota_is_rounded_down_to_at_least_one(root: Path, quota: str, cpus: int) -> None:
    put(root, "proc/self/cgroup", "0::/\n")
    put(root, "sys/fs/cgroup/cpu.max", quota)
    assert hardware.allowed_cpus(root) == cpus


def test_the_tightest_group_above_counts(root: Path) -> None:
    put(root, "proc/self/cgroup", "0::/pod/container\n")
    put(root, "sys/fs/cgroup/pod/cpu.max", "300000 100000")
    put(root, "sys/fs/cgroup/pod/container/cpu.max", "600000 100000")
    assert hardware.allowed_cpus(root) == 3


@pytest.mark.parametrize(("quota", "cpus"), [("400000", 4), ("-1", 8)])
def test_cgroup_v1_quota(root: Path, quota: str, cpus: int) -> None:
    put(root, "proc/self/cgroup", "4:memory:/a\n1:cpu,cpuacct:/\n0::/\n")
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota)
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert hardware.allowed_cpus(root) == cpus


def test_memory_of_a_plain_machine(root: Path) -> None:
    put(root, "proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1024 kB\nMemAvailable: 4194304 kB\n")
    assert hardware.memory_available(root) == 4 * GIB
    assert hardware.memory_total(root) == 16 * GIB


def test_memory_in_a_v2_group_counts_cached_files_as_free(root: Path) -> None:
    put(root, "proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
    put(root, "proc/self/cgroup", "0::/\n")
    put(root, "sys/fs/cgroup/memory.max", str(8 * GIB))
    put(root, "sys/fs/cgroup/memory.current", str(5 * GIB))
    put(root, "sys/fs/cgroup/memory.stat", f"anon 1\ninactive_file {2 * GIB}\n")
    assert hardware.memory_available(root) == 5 * GIB
    assert hardware.memory_total(root) == 8 * GIB


def test_memory_in_a_v1_group(root: Path) -> None:
    put(root, "proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")
    put(root, "proc/self/cgroup", "4:memory:/job\n0::/\n")
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    put(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", str(2 * GIB))
    put(root, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", str(GIB))
    assert hardware.memory_available(root) == GIB


def test_unknown_memory_is_no_reason_to_refuse(root: Path) -> None:
    assert hardware.memory_available(root) is None
    hardware.require_memory(10**15, "anything", root)


def test_too_little_memory_is_one_line_with_both_numbers(root: Path) -> None:
    put(root, "proc/meminfo", "MemAvailable: 1048576 kB\n")
    hardware.require_memory(GIB, "a model", root)
    with pytest.raises(ResourceError) as caught:
        hardware.require_memory(int(2.5 * GIB), "the LLM qwen", root)
    assert str(caught.value) == (
        "not enough memory for the LLM qwen: 2.5 GiB needed, 1.0 GiB available; "
        "close other programs, or choose a smaller model"
    )


def test_gpus_from_the_drivers_tool() -> None:
    text = "NVIDIA H200, 143771, 143000\nOdd, name, 100, 50\nNo devices were found\nNVIDIA GB10, [N/A], [N/A]\n"
    assert hardware.parse_gpus(text) == (
        hardware.Gpu("NVIDIA H200", 143771 << 20, 143000 << 20),
        hardware.Gpu("Odd, name", 100 << 20, 50 << 20),
    )


def test_no_driver_means_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hardware.gpus.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hardware.find_gpu() is None
    hardware.gpus.cache_clear()


def test_machine_name_says_processor_cpus_memory_and_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "cpu_name", lambda: "Intel(R) Xeon(R) Processor")
    monkeypatch.setattr(hardware, "allowed_cpus", lambda: 2)
    monkeypatch.setattr(hardware, "memory_total", lambda: int(23.6 * GIB))
    monkeypatch.setattr(hardware, "gpus", lambda: ())
    assert hardware.machine_name() == "Intel(R) Xeon(R) Processor, 2 CPUs, 24 GiB"
    monkeypatch.setattr(hardware, "gpus", lambda: (hardware.Gpu("NVIDIA H200", 141 * GIB, GIB),))
    assert hardware.machine_name() == "Intel(R) Xeon(R) Processor, 2 CPUs, 24 GiB, NVIDIA H200 141 GiB"


def test_cpu_name_drops_the_clock(root: Path) -> None:
    put(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 7B13 @ 2.4GHz\n")
    assert hardware.cpu_name(root) == "AMD EPYC 7B13"
