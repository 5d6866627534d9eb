"""Records: a model's results for a text, the request for them, and their files. Needs numpy, never torch."""

from attncli.record.parts import ModelInfo, Vectors
from attncli.record.record import AttentionRecord, save_records
from attncli.record.selection import Input, Request

__all__ = ["AttentionRecord", "Input", "ModelInfo", "Request", "Vectors", "save_records"]
