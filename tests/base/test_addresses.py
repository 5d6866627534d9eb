"""Addresses: which names are some, and what goes wrong with them in one line."""

import sys
from pathlib import Path

import pytest

from attncli import RequestError
from attncli.base.addresses import convert_errors, describe_file_error, filesystem, is_address, local_path


@pytest.mark.parametrize(
    "name, there",
    [("s3://a/b", True), ("HF://a", True), ("file:///a", False), ("a/b", False), ("a:b", False), ("-", False)],
)
def test_what_is_an_address(name, there):
    assert is_address(name) is there


def test_a_file_of_this_machine_may_say_so():
    assert local_path("file:///a/b") == local_path("/a/b") == Path("/a/b")


@pytest.mark.parametrize(
    "name, says", [("://a", "^://a: the scheme before :// is missing"), ("File://", "^File://: the path is missing")]
)
def test_half_an_address_is_no_file_of_this_machine(name, says):
    with pytest.raises(RequestError, match=says):
        local_path(name)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    with pytest.raises(RequestError, match=r"^s3:// needs s3fs: pip install s3fs$"):
        filesystem("s3://bucket/name")


@pytest.mark.parametrize(
    "address, says", [("nonsense://a", "Protocol not known"), ("a://b::c://d", "chained addresses")]
)
def test_what_is_no_address_is_refused(address, says):
    with pytest.raises(RequestError, match=says):
        filesystem(address)


def test_whatever_goes_wrong_is_one_line():
    with pytest.raises(RequestError) as refusal, convert_errors("can't read", "s3://" + "x" * 999):
        raise RuntimeError("one\ntwo" * 999)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) <= 300
    assert describe_file_error(FileNotFoundError("bucket/key")) == "No such file or directory"
    assert describe_file_error(PermissionError(13, "Permission denied", "x")) == "Permission denied"
