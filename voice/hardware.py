"""What this process may really use of the machine: CPUs, memory, GPU."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from voice.errors import ResourceError

GIB = 1 << 30
_UNLIMITED = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2**63."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU."""

    name: str
    total_bytes: int
    free_bytes: int


def allowed_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may really use: the affinity mask and the cgroup quota, rounded down, at least 1.

    A container with a quota of 2 CPUs on a 64-core machine should start 2 threads, not 64.
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        allowed = os.cpu_count() or 1
    quota = _cpu_quota(root)
    return max(1, min(allowed, int(quota)) if quota else allowed)


def memory_available(root: Path = Path("/")) -> int | None:
    """Bytes that can still be taken without swapping, within the cgroup's limit; None where nobody says."""
    candidates = [value for value in (_meminfo(root, "MemAvailable"), _cgroup_memory_free(root)) if value is not None]
    return min(candidates) if candidates else None


def memory_total(root: Path = Path("/")) -> int | None:
    """Bytes of memory this process could have at most; None where nobody says."""
    total = _meminfo(root, "MemTotal")
    if total is None:
        try:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError):
            return None
    limits = [limit for limit, _ in _cgroup_memory(root)]
    return min([total, *limits])


def require_memory(needed_bytes: int, what: str, root: Path = Path("/")) -> None:
    """Raises ResourceError if less than ``needed_bytes`` are available for ``what`` (e.g. "the LLM smollm2")."""
    free = memory_available(root)
    if free is not None and free < needed_bytes:
        raise ResourceError(
            f"not enough memory for {what}: {needed_bytes / GIB:.1f} GiB needed, {free / GIB:.1f} GiB available; "
            "close other programs, or choose a smaller model"
        )


@cache
def gpus() -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that the driver's own tool sees; none without the tool. Asked once a process."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_gpus(done.stdout) if done.returncode == 0 else ()


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """GPUs from nvidia-smi's CSV (name, total MiB, free MiB); lines that are something else are skipped."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.rsplit(",", 2)]
        if len(fields) == 3 and fields[1].isdigit() and fields[2].isdigit():
            found.append(Gpu(fields[0], int(fields[1]) << 20, int(fields[2]) << 20))
    return tuple(found)


def find_gpu() -> Gpu | None:
    """The first NVIDIA GPU, or None."""
    found = gpus()
    return found[0] if found else None


def cpu_name(root: Path = Path("/")) -> str:
    """The processor's name as the system gives it."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.split("@")[0].strip()
    if platform.system() == "Darwin":
        try:
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
            if name:
                return name
        except (OSError, subprocess.TimeoutExpired):
            pass
    return platform.processor() or platform.machine() or "unknown CPU"


def machine_name() -> str:
    """The machine in one line for reports, e.g. "Intel(R) Xeon(R) Processor, 2 CPUs, 24 GiB"."""
    count = allowed_cpus()
    parts = [cpu_name(), f"{count} CPU" if count == 1 else f"{count} CPUs"]
    if total := memory_total():
        parts.append(f"{total / GIB:.0f} GiB")
    parts += [f"{one.name} {one.total_bytes / GIB:.0f} GiB" for one in gpus()]
    return ", ".join(parts)


def _cpu_quota(root: Path) -> float | None:
    """CPUs that cgroups allow: the tightest of this process's group and those above it."""
    quotas = []
    for folder in _groups(root, "cpu"):
        fields = _read(folder / "cpu.max").split()  # v2: "200000 100000" or "max 100000"
        if len(fields) == 2 and fields[0] != "max":
            quotas.append(_ratio(fields[0], fields[1]))
        quotas.append(_ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")))  # v1
    found = [quota for quota in quotas if quota is not None]
    return min(found) if found else None


def _cgroup_memory(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and free bytes of each group with a limit that this process is in."""
    for folder in _groups(root, "memory"):
        for limit_file, usage_file, cache_key in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, usage = _number(_read(folder / limit_file)), _number(_read(folder / usage_file))
            if limit is None or limit >= _UNLIMITED:
                continue
            # Cached files count as used, but the kernel gives them up when memory is asked for.
            reclaimable = 0
            for line in _read(folder / "memory.stat").splitlines():
                key, _, value = line.partition(" ")
                if key == cache_key:
                    reclaimable = _number(value) or 0
            yield limit, max(0, limit - max(0, (usage or 0) - reclaimable))


def _cgroup_memory_free(root: Path) -> int | None:
    return min((free for _, free in _cgroup_memory(root)), default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's cgroup for a controller and of all groups above it, as far as they can be seen."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            base = root / "sys/fs/cgroup"
        elif controller in names.split(","):
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        folder = base / path.strip("/")
        while True:
            yield folder
            if folder == base:
                break
            folder = folder.parent


def _meminfo(root: Path, key: str) -> int | None:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == key and (number := _number(value.split()[0] if value.split() else "")) is not None:
            return number * 1024
    return None


def _ratio(quota: str, period: str) -> float | None:
    above, below = _number(quota), _number(period)
    return above / below if above and below and above > 0 else None


def _number(text: str) -> int | None:
    try:
        return int(text.strip())
    except ValueError:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
