"""Receivers, the consumers' side of a queue: take runs, do each once, report its end, acknowledge."""

from dutiful.receivers.celery import celery_task
from dutiful.receivers.delivery import BadMessageError, Delivery
from dutiful.receivers.nats import NatsReceiver
from dutiful.receivers.postgres import PostgresSeen
from dutiful.receivers.seen import Answer, Claim, Seen, SqliteSeen, TaskFailedError
from dutiful.receivers.stream import StreamReceiver
from dutiful.receivers.valkey import ValkeySeen

__all__ = [
    "Answer",
    "BadMessageError",
    "Claim",
    "Delivery",
    "NatsReceiver",
    "PostgresSeen",
    "Seen",
    "SqliteSeen",
    "StreamReceiver",
    "TaskFailedError",
    "ValkeySeen",
    "celery_task",
]
