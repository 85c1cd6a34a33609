"""OpenTelemetry: a span for each enqueue, and one for each attempt. Imported only if tracing is enabled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rowcall.context import logger
from rowcall.domain.config import VERSION
from rowcall.domain.job import Job
from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import OUTCOMES, Transition
from rowcall.store.new_job import NewJob
from rowcall.store.queries.claims import Ready

_propagator = TraceContextTextMapPropagator()
_FAILURES = (Move.RETRY, Move.FAIL)

Attributes = dict[str, str | int]


class OpenTelemetry:
    """Creates spans by the semantic conventions for messaging, with the provider of the app."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("rowcall", VERSION)

    @contextmanager
    def sending(self, job: NewJob, count: int) -> Iterator[_Sending]:
        attributes = _attributes("send", job.type, job.queue)
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        span = self._start(f"send {job.type}", context.get_current(), SpanKind.PRODUCER, attributes)
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield _Sending(msgspec.structs.replace(job, trace_context=self.carried()), span, is_batch=count > 1)
        except Exception as error:
            span.set_status(StatusCode.ERROR)  # its text may hold a secret
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            context.detach(token)
            with _harmless():
                span.end()

    def processing(self, ready: Ready, worker: str) -> _Processing:
        own, *blockers = (ready.trace_context or "").splitlines() or [""]
        sent = _propagator.extract(_carrier(own), Context())
        attributes = _attributes("process", ready.type, ready.queue)
        attributes |= {"messaging.message.id": str(ready.id), "messaging.client.id": worker}
        attributes |= {"rowcall.attempt": ready.attempt, "rowcall.max_attempts": ready.max_attempts}
        linked = [sent, *(_propagator.extract(_carrier(blocker), Context()) for blocker in blockers)]
        found = [trace.get_current_span(one).get_span_context() for one in linked]
        links = [Link(one) for one in found if one.is_valid]
        return _Processing(self._start(f"process {ready.type}", sent, SpanKind.CONSUMER, attributes, links))

    def _start(
        self, name: str, parent: Context, kind: SpanKind, attributes: Attributes, links: Sequence[Link] = ()
    ) -> Span:
        with _harmless():
            return self._tracer.start_span(name, parent, kind, attributes, links)
        return trace.INVALID_SPAN

    def carried(self) -> str | None:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return " ".join(carrier[name] for name in ("traceparent", "tracestate") if name in carrier) or None


class _Sending:
    def __init__(self, job: NewJob, span: Span, *, is_batch: bool) -> None:
        self.job = job
        self._span = span
        self._is_batch = is_batch

    def written(self, jobs: Sequence[Job]) -> None:
        if not self._is_batch:
            self._span.set_attribute("messaging.message.id", str(jobs[0].id))
        if any(job.duplicate for job in jobs):
            self._span.set_attribute("rowcall.duplicate", True)


class _Processing:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._token = context.attach(trace.set_span_in_context(span))

    @property
    def log_fields(self) -> dict[str, object]:
        context = self._span.get_span_context()
        if not context.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}

    def end(self, transition: Transition | None) -> None:
        if not self._span.is_recording():
            return  # already ended when it was given up, or not sampled
        if transition is not None:
            self._span.set_attribute("rowcall.outcome", OUTCOMES[transition.move])
            if transition.move in _FAILURES:
                self._describe(transition)
        with _harmless():
            self._span.end()

    def leave(self) -> None:
        context.detach(self._token)

    def _describe(self, failure: Transition) -> None:
        """Use the stored text: it is bounded and scrubbed."""
        self._span.set_status(StatusCode.ERROR, failure.error_detail)
        self._span.set_attribute("error.type", failure.error_code or "_OTHER")
        if failure.traceback is not None:
            fields = {"exception.message": failure.error_detail or "", "exception.stacktrace": failure.traceback}
            self._span.add_event("exception", fields)


@contextmanager
def _harmless() -> Iterator[None]:
    """The app's span processors run when a span starts and ends: their exceptions must not harm a job."""
    try:
        yield
    except Exception:
        logger.exception("could not start or end a span")


def _attributes(operation: str, task: str, queue: str) -> Attributes:
    return {
        "messaging.system": "rowcall",
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "rowcall.task": task,
    }


def _carrier(trace_context: str) -> dict[str, str]:
    """Parse a trace context: `traceparent`, and `tracestate` after a space."""
    parent, _, state = trace_context.partition(" ")
    return {"traceparent": parent, "tracestate": state} if state else {"traceparent": parent}
