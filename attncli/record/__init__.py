"""Records: a model's results for a text, the request for them, and their files. Needs numpy, never torch."""

from attncli.record.loading import load_record, load_records
from attncli.record.making import record_of, records_of
from attncli.record.parts import ModelInfo, Vectors
from attncli.record.record import AttentionRecord, save_records
from attncli.record.selection import Input, Request

__all__ = [
    "AttentionRecord",
    "Input",
    "ModelInfo",
    "Request",
    "Vectors",
    "load_record",
    "load_records",
    "record_of",
    "records_of",
    "save_records",
]
