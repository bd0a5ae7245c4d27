"""Goldens for extras/tensorboard/summary_writer: python3 tests/golden/make_tensorboard.py (needs torch, tensorboard).

Events that PyTorch's SummaryWriter writes, without their times, and a framed record, stored as
hexadecimal text.
"""

import io
import tempfile

import numpy as np
import torch
from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import SummaryWriter, summary

import golden


with tempfile.TemporaryDirectory() as folder:
    with SummaryWriter(folder) as writer:
        BINS = writer.default_bins


def histogram(values):
    return summary.histogram("weights/fc", np.array(values), BINS)


# In [0, 1] and outside. PNG files differ between encoders, so the pixels are stored instead.
PICTURE = np.array([[[0.0, 0.25, 1.0]], [[0.999, 0.5, 1.5]], [[-0.5, 0.75, 0.1]]], dtype=np.float32)
picture = summary.image("pictures", PICTURE, dataformats="CHW")
PIXELS = np.asarray(Image.open(io.BytesIO(picture.value[0].image.encoded_image_string)))
picture.value[0].image.encoded_image_string = b"PNG"
grid = summary.image("grid", np.arange(9 * 3 * 2, dtype=np.uint8).reshape(9, 3, 1, 2), dataformats="NCHW")
GRID = np.asarray(Image.open(io.BytesIO(grid.value[0].image.encoded_image_string)))

events = {
    "version": Event(file_version="brain.Event:2"),
    "purge": Event(step=120, session_log=SessionLog(status=SessionLog.START)),
    "scalar": Event(step=7, summary=summary.scalar("loss/train", 0.1)),
    "scalar_nan": Event(step=0, summary=summary.scalar("loss/train", float("nan"))),
    "histogram": Event(step=3, summary=histogram([-2.5, -1e-3, 0.0, 0.0, 1e-13, 0.25, 0.25, 3.0, 1e6])),
    "histogram_one": Event(step=4, summary=histogram([0.5])),
    "image": Event(step=6, summary=picture),
    "text": Event(step=5, summary=summary.text("notes", "**bold** caf\u00e9")),
}


class Keep(io.BytesIO):
    def close(self):
        pass


record = Keep()
RecordWriter(record).write(b"hello")
texts = {name: event.SerializeToString().hex() for name, event in events.items()}
texts["image_pixels"] = PIXELS.tobytes().hex()
texts["grid_pixels"] = GRID.tobytes().hex()
texts["record_hello"] = record.getvalue().hex()
golden.write_texts("tensorboard_hex.txt", texts)
