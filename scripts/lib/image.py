#!/usr/bin/env python3
"""Writes a container image of one layer as a docker-archive tar, with no container engine.

usage: image.py OUT NAME CONFIG ENTRY...
CONFIG is the image's config as JSON (Cmd, Entrypoint, Env, User, ...). An ENTRY is one of
  /path=FILE    the file's content, executable if the file is
  /path@TARGET  a symbolic link
  /path/        a directory anyone may write to
Same input, same bytes: no time, no owner, no order of the machine gets in.
"""
import hashlib
import io
import json
import os
import sys
import tarfile

EPOCH = "1970-01-01T00:00:00Z"


def member(path, kind, mode):
    info = tarfile.TarInfo(path.strip("/"))
    info.type, info.mode, info.mtime = kind, mode, 0
    return info


def parents(path):
    parts = path.strip("/").split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def write_layer(out, entries):
    made = set()
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for entry in sorted(entries):
            path = entry.split("=")[0].split("@")[0]
            for parent in parents(path):
                if parent not in made:
                    made.add(parent)
                    tar.addfile(member(parent, tarfile.DIRTYPE, 0o755))
            if entry.endswith("/"):
                made.add(path.strip("/"))
                tar.addfile(member(path, tarfile.DIRTYPE, 0o1777))
            elif "=" in entry:
                source = entry.split("=", 1)[1]
                with open(source, "rb") as file:
                    stat = os.fstat(file.fileno())
                    info = member(path, tarfile.REGTYPE, 0o755 if stat.st_mode & 0o100 else 0o644)
                    info.size = stat.st_size
                    tar.addfile(info, file)
            elif "@" in entry:
                info = member(path, tarfile.SYMTYPE, 0o777)
                info.linkname = entry.split("@", 1)[1]
                tar.addfile(info)
            else:
                sys.exit(f"image.py: what is {entry!r}?")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_image(out, name, config, layer):
    layer_digest = digest(layer)
    image = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "created": EPOCH,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": EPOCH, "created_by": "quorate"}],
    }).encode()
    image_name = hashlib.sha256(image).hexdigest() + ".json"
    layer_name = f"{layer_digest}/layer.tar"
    manifest = json.dumps([{"Config": image_name, "RepoTags": [name], "Layers": [layer_name]}]).encode()
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in ((image_name, image), ("manifest.json", manifest)):
            info = member(path, tarfile.REGTYPE, 0o644)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        info = member(layer_name, tarfile.REGTYPE, 0o644)
        info.size = os.path.getsize(layer)
        with open(layer, "rb") as file:
            tar.addfile(info, file)


def main(out, name, config, *entries):
    part, layer = out + ".part", out + ".layer"
    try:
        write_layer(layer, entries)
        write_image(part, name, json.loads(config), layer)
        os.rename(part, out)
    finally:
        for path in (part, layer):
            if os.path.exists(path):
                os.remove(path)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
