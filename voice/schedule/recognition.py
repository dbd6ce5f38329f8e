"""One owner for the recogniser: what many sessions ask of it waits in one bounded queue, in order of claims.

The model runs one pass at a time. While it runs, requests gather; the next pass takes the strongest claim and what
fits beside it. So nothing waits for a batch to fill: a pass is as wide as the load has made it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from voice import metrics
from voice.engines.asr import Listen, SpeechRecognizer, Transcript
from voice.errors import ServiceError, VoiceError
from voice.schedule.claims import Claim

MAX_WAITING = 64
"""Requests that wait. When full, the weakest and newest makes room for a stronger one."""


class Skipped(VoiceError):
    """The recogniser was too busy for a request that can be left out."""


class Job:
    """A request on its way. ``await job`` gives the transcript, or raises what the recogniser raised, or Skipped."""

    def __init__(self, request: Listen, claim: Claim, order: int, now: float, done: asyncio.Future[Transcript]) -> None:
        self.request = request
        self.claim = claim
        self.order = order
        self.submitted = now
        self.started: float | None = None
        self.ended: float | None = None
        self.skipped = False
        self._done = done

    def promote(self, claim: Claim) -> None:
        """A stronger claim from now on, for instance when a guess has become the final."""
        self.claim = min(self.claim, claim)

    def cancel(self) -> None:
        """Nobody wants the result any more: the job raises Skipped. A pass that runs already runs on."""
        self.settle(Skipped("the recognition was cancelled"))

    @property
    def begun(self) -> bool:
        """Whether the recogniser has it, or had it."""
        return self.started is not None

    @property
    def done(self) -> bool:
        """Whether there is a result, an error, or nobody who wants one."""
        return self._done.done()

    @property
    def compute_ms(self) -> float:
        """How long its pass took."""
        return 0.0 if self.started is None or self.ended is None else 1000 * (self.ended - self.started)

    @property
    def waited_s(self) -> float:
        """From the request until its pass began."""
        return 0.0 if self.started is None else self.started - self.submitted

    @property
    def latency_s(self) -> float:
        """From the request to its result: waiting and compute."""
        return 0.0 if self.ended is None else self.ended - self.submitted

    def __await__(self) -> Generator[Any, None, Transcript]:
        return asyncio.shield(self._done).__await__()

    def settle(self, outcome: Transcript | BaseException) -> None:
        """The queue's answer; ignored when nobody waits for it any more."""
        if self._done.done():
            return
        self.skipped = isinstance(outcome, Skipped)
        if isinstance(outcome, Transcript):
            self._done.set_result(outcome)
        else:
            self._done.set_exception(outcome)
            self._done.exception()  # whoever awaits it sees it; nobody has to


class RecognitionQueue:
    """Takes requests of all sessions to the one recogniser."""

    def __init__(self, recognizer: SpeechRecognizer) -> None:
        self._recognizer = recognizer
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._orders = 0
        self._pump: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    def submit(self, request: Listen, claim: Claim) -> Job:
        """Puts a request in its place; returns at once.

        The job raises Skipped when the queue is full of claims at least as strong, or ServiceError for a final.
        """
        loop = asyncio.get_running_loop()
        job = Job(request, claim, self._orders, loop.time(), loop.create_future())
        self._orders += 1
        self._waiting = [waiting for waiting in self._waiting if not waiting.done]
        self._waiting.append(job)
        if len(self._waiting) > MAX_WAITING:
            self._leave_out(max(self._waiting, key=_rank))
        metrics.ASR_WAITING.set(len(self._waiting))
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._run(), name="recognition")
        return job

    async def close(self) -> None:
        """Cancels every request; a running pass is not waited for."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        for job in [*self._waiting, *self._running]:
            job.cancel()
        self._waiting.clear()

    def _leave_out(self, job: Job) -> None:
        self._waiting.remove(job)
        if job.claim is Claim.FINAL:
            job.settle(ServiceError(f"{MAX_WAITING} turns wait for the speech recogniser: say it again in a moment"))
        else:
            job.settle(Skipped("the speech recogniser is busy"))
        metrics.ASR_JOBS.labels(job.claim.name.lower(), "skipped").inc()

    async def _run(self) -> None:
        while batch := self._next():
            self._running = batch
            await self._pass(batch)
            self._running = []
            metrics.ASR_WAITING.set(len(self._waiting))

    def _next(self) -> list[Job]:
        """The strongest claim, first come first served, and the jobs with the same claim that fit into its pass."""
        batch: list[Job] = []
        for job in sorted(self._waiting, key=_rank):
            if job.done:
                continue
            if not batch:
                batch.append(job)
            elif job.claim is not batch[0].claim:
                break
            elif self._recognizer.fits([other.request for other in batch], job.request):
                batch.append(job)
        taken = set(batch)
        self._waiting = [job for job in self._waiting if job not in taken and not job.done]
        return batch

    async def _pass(self, batch: list[Job]) -> None:
        started = asyncio.get_running_loop().time()
        for job in batch:
            job.started = started
        try:
            transcripts = await self._recognizer.transcribe([job.request for job in batch])
        except Exception as error:
            if len(batch) > 1:  # one request may have spoilt it for the others: each by itself
                for job in batch:
                    if not job.done:
                        await self._pass([job])
                return
            _close(batch, "failed")
            batch[0].settle(error)
            return
        _close(batch, "done")
        for job, transcript in zip(batch, transcripts, strict=True):
            job.settle(transcript)


def _rank(job: Job) -> tuple[Claim, int]:
    return job.claim, job.order


def _close(batch: Sequence[Job], outcome: str) -> None:
    ended = asyncio.get_running_loop().time()
    for job in batch:
        job.ended = ended
        claim = job.claim.name.lower()
        metrics.ASR_JOBS.labels(claim, outcome).inc()
        metrics.ASR_WAIT_SECONDS.labels(claim).observe(job.waited_s)
    metrics.ASR_PASS_SECONDS.labels(batch[0].request.depth.value).observe(ended - (batch[0].started or ended))
    metrics.ASR_BATCH_SIZE.observe(len(batch))
