"""Goldens for io/summary_writer: python3 tests/golden/make_tensorboard.py (needs torch, tensorboard).

Events as PyTorch's SummaryWriter writes them, without their times, and a framed record, stored as
hexadecimal text.
"""

import io
import tempfile

import numpy as np
import torch
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import SummaryWriter, summary

import golden


with tempfile.TemporaryDirectory() as folder:
    with SummaryWriter(folder) as writer:
        BINS = writer.default_bins


def histogram(values):
    return summary.histogram("weights/fc", np.array(values), BINS)


events = {
    "version": Event(file_version="brain.Event:2"),
    "purge": Event(step=120, session_log=SessionLog(status=SessionLog.START)),
    "scalar": Event(step=7, summary=summary.scalar("loss/train", 0.1)),
    "scalar_nan": Event(step=0, summary=summary.scalar("loss/train", float("nan"))),
    "histogram": Event(step=3, summary=histogram([-2.5, -1e-3, 0.0, 0.0, 1e-13, 0.25, 0.25, 3.0, 1e6])),
    "histogram_one": Event(step=4, summary=histogram([0.5])),
    "text": Event(step=5, summary=summary.text("notes", "**bold** caf\u00e9")),
}


class Keep(io.BytesIO):
    def close(self):
        pass


record = Keep()
RecordWriter(record).write(b"hello")
texts = {name: event.SerializeToString().hex() for name, event in events.items()}
texts["record_hello"] = record.getvalue().hex()
golden.write_texts("tensorboard_hex.txt", texts)
