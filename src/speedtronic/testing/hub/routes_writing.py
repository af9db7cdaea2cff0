"""How a repository changes: the questions before an upload, large files, commits."""

import base64
import json
from typing import Any

from speedtronic.testing.hub.messages import (
    Refused,
    Reply,
    Request,
    stale_parent,
    told,
)
from speedtronic.testing.hub.repository import Repository
from speedtronic.testing.hub.routing import route
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.values import File, iso, lfs_file


def _preupload(hub: HubState, request: Request) -> Reply:
    """Where each file goes, and what is there now.

    The client leaves out what is the same already, and sends no commit at all if that
    was everything: then nobody compares the parent.
    """
    found = hub.writable(request)
    commit = found.at(request.revision, request.back)
    answers = []
    for wanted in request.json()["files"]:
        name, size = wanted["path"], wanted["size"]
        large = found.goes_to_lfs(name, size, commit)
        mode = "lfs" if large else "regular"
        answer = {"path": name, "uploadMode": mode, "shouldIgnore": False}
        held = commit.files.get(name)
        if held is not None:
            answer["oid"] = held.sha256 if held.lfs else held.oid
        answers.append(answer)
    return told({"files": answers})


def _lfs_batch(hub: HubState, request: Request) -> Reply:
    found, wanted = hub.writable(request), request.json()["objects"]
    missing = [w for w in wanted if w["oid"] not in found.settings.lfs]
    found.storage.check(sum(w["size"] for w in missing))
    place = f"{hub.endpoint}/{found.name}.git/info/lfs/objects"
    objects = []
    for each in wanted:
        answer: dict[str, Any] = {"oid": each["oid"], "size": each["size"]}
        if each in missing:
            answer["actions"] = {
                "upload": {"href": f"{place}/upload/{each['oid']}"},
                "verify": {"href": f"{place}/verify"},
            }
        objects.append(answer)
    return told({"transfer": "basic", "objects": objects})


def _lfs_upload(hub: HubState, request: Request) -> Reply:
    """The address is the permission here: the client sends no token to the storage."""
    found = hub.repository(request.parts["repository"])
    found.storage.receive(request.parts["sum"], request.chunks())
    return Reply(200, b"", {"ETag": f'"{request.parts["sum"]}"'})


def _lfs_verify(hub: HubState, request: Request) -> Reply:
    found, wanted = hub.writable(request), request.json()
    if found.storage.large(wanted["oid"]).size != wanted["size"]:
        raise Refused(400, "The size is another")
    return told({})


def _lfs_files(hub: HubState, request: Request) -> Reply:
    found = hub.writable(request)
    with found.lock:
        names = {
            file.sha256: name
            for commit in reversed(found.history)
            for name, file in commit.files.items()
        }
        held = dict(found.settings.lfs)
    return told(
        [
            {
                "fileOid": lfs_file(sha256, large.size).oid,
                "filename": names.get(sha256, ""),
                "oid": sha256,
                "pushedAt": iso(large.pushed),
                "size": large.size,
            }
            for sha256, large in held.items()
        ]
    )


def _lfs_delete(hub: HubState, request: Request) -> Reply:
    found, wanted = hub.writable(request), request.json()["deletions"]
    with found.lock:
        sums = {
            sha256
            for sha256, large in found.settings.lfs.items()
            if lfs_file(sha256, large.size).oid in wanted["sha"]
        }
        found.forget(sums, rewrite=wanted["rewriteHistory"])
    return told({})


def _commit(hub: HubState, request: Request) -> Reply:
    found = hub.writable(request)
    assert request.account is not None
    if request.flag("create_pr"):
        raise Refused(400, "This emulator has no pull requests")
    if request.account.role == "pull-request":
        raise stale_parent()
    lines = [json.loads(line) for line in request.body().splitlines() if line.strip()]
    header: dict[str, Any] = {}
    adds: dict[str, File] = {}
    deletes = []
    with found.lock:
        for line in lines:
            key, value = line["key"], line["value"]
            if key == "header":
                header = value
            elif key == "file":
                adds[value["path"]] = _regular(hub, found, value)
            elif key == "lfsFile":
                adds[value["path"]] = found.storage.large(value["oid"])
            elif key == "deletedFile":
                deletes.append(value["path"])
            elif key == "deletedFolder":
                deletes.append(value["path"].rstrip("/") + "/")
            else:
                raise Refused(400, f"Unknown key in a commit: {key!r}")
        with hub.quotas.commit(found.name):
            made = found.commit(
                request.revision,
                adds,
                deletes,
                parent=header.get("parentCommit"),
                title=header.get("summary", ""),
                message=header.get("description", ""),
                user=request.account.user,
            )
    where = f"{hub.endpoint}/{found.name}/commit/{made.id}"
    return told({"success": True, "commitOid": made.id, "commitUrl": where})


def _regular(hub: HubState, found: Repository, value: dict[str, Any]) -> File:
    content = base64.b64decode(value["content"])
    if len(content) > hub.limits.regular_bytes:
        raise Refused(
            400,
            "Your push was rejected because it contains files larger than "
            f"{hub.limits.regular_bytes} bytes: {value['path']}",
        )
    return found.storage.regular(content)


_MODEL = "/api/models/{repository}"
_LFS = "/{repository}.git/info/lfs/objects"
ROUTES = [
    route("preupload", "POST", _MODEL + "/preupload/{revision}", _preupload),
    route("commit", "POST", _MODEL + "/commit/{revision}", _commit),
    route("lfs-batch", "POST", _LFS + "/batch", _lfs_batch),
    route("lfs-upload", "PUT", _LFS + "/upload/{sum}", _lfs_upload),
    route("lfs-verify", "POST", _LFS + "/verify", _lfs_verify),
    route("lfs-files", "GET", _MODEL + "/lfs-files", _lfs_files),
    route("lfs-delete", "POST", _MODEL + "/lfs-files/batch", _lfs_delete),
]
