#!/usr/bin/python3
"""A pass in another language: removes Identity nodes from the graphs on stdin.

    gg-parse model.onnx | examples/passes/no_identity.py | gg-run

Needs msgpack (Debian: python3-msgpack). The stream is described in docs/stream.md."""
import sys
import zlib

import msgpack


def graphs(data):
    """For each graph its records: [tag, map, the bytes they came as]."""
    unpacker = msgpack.Unpacker(unicode_errors="surrogateescape", max_buffer_size=len(data))
    unpacker.feed(data)
    records, at = [], 0
    for tag, body in unpacker:
        if tag == "end":
            yield records
            records = []
        else:
            records.append([tag, body, data[at : unpacker.tell()]])
        at = unpacker.tell()
    if records or at < len(data) or not data:
        sys.exit("no_identity: the stream ends early: the tool before this one failed")


def remove_identity(records):
    kept = {i for tag, r, _ in records if tag == "graph" for i in r["out"] + list(r.get("state", {}).values())}
    kept |= {i for tag, r, _ in records if tag == "node" for i in r.get("after", [])}
    same, gone = {}, set()  # value -> the value it is a copy of; ids whose records go
    for record in records:
        tag, r, _ = record
        if tag != "node":
            continue
        if any(i in same for i in r["in"]):
            r["in"] = [same.get(i, i) for i in r["in"]]
            record[2] = msgpack.packb([tag, r], use_single_float=True, unicode_errors="surrogateescape")
        if r["op"] == "Identity" and not kept & {r["id"], r["out"][0]}:
            same[r["out"][0]] = r["in"][0]
            gone |= {r["id"], r["out"][0]}
    return [raw for _, r, raw in records if r.get("id") not in gone]


def main():
    out = []
    for records in graphs(sys.stdin.buffer.read()):
        raw = remove_identity(records)
        crc = zlib.crc32(b"".join(raw[1:]))  # all but the header and the end
        out += raw + [msgpack.packb(["end", {"records": len(raw), "crc": crc}])]
    sys.stdout.buffer.write(b"".join(out))  # nothing at all when a graph was cut short


main()
