"""Who one is, and repositories as a whole: made, described, branched, squashed."""

from typing import Any

import attrs
import yaml

from speedtronic.testing.hub.messages import Refused, Reply, Request, told
from speedtronic.testing.hub.routing import route
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.values import Account, File, iso, pointer

_FREE_STORAGE = 100 * 10**9  # bytes of a free account's private repositories


def _known(request: Request) -> Account:
    if request.account is None:
        raise Refused(401, "Invalid username or password.")
    return request.account


def _private(wanted: dict[str, Any], default: bool) -> bool:
    """The first clients of 1.x say ``private``, later ones ``visibility``."""
    if "visibility" in wanted:
        return bool(wanted["visibility"] == "private")
    return bool(wanted.get("private", default))


def _whoami(hub: HubState, request: Request) -> Reply:
    account = _known(request)
    role = "read" if account.role == "read" else "write"
    organizations = [
        {"type": "org", "name": name, "roleInOrg": role}
        for name in hub.accounts.organizations
    ]
    token = {"displayName": "emulated", "role": role}
    return told(
        {
            "type": "user",
            "id": account.user,
            "name": account.user,
            "fullname": account.user,
            "isPro": False,
            "orgs": organizations,
            "auth": {"type": "access_token", "accessToken": token},
        }
    )


def _storage(hub: HubState, request: Request) -> Reply:
    """What each of a user's or an organization's repositories takes of the storage."""
    owner = request.parts.get("owner") or _known(request).user
    whole = hub.limits.storage_bytes or _FREE_STORAGE
    return told(
        [
            {
                "id": found.name,
                "type": "model",
                "updatedAt": iso(found.at("main").date),
                "visibility": "private" if found.settings.private else "public",
                "storage": found.storage.used,
                "storagePercent": 100 * found.storage.used / whole,
            }
            for found in hub.owned(_known(request), owner)
        ]
    )


def _create(hub: HubState, request: Request) -> Reply:
    account, wanted = _known(request), request.json()
    owner = wanted.get("organization") or account.user
    if wanted.get("type", "model") != "model":
        raise Refused(400, "This emulator has model repositories only")
    name = f"{owner}/{wanted['name']}"
    if account.role != "write" or not hub.accounts.owns(account, name):
        raise Refused(
            403,
            "You don't have the rights to create a model under the namespace "
            f'"{owner}"',
        )
    hub.create(name, private=_private(wanted, default=False))
    return told({"url": f"{hub.endpoint}/{name}", "name": name, "id": name})


def _delete(hub: HubState, request: Request) -> Reply:
    account, wanted = _known(request), request.json()
    name = f"{wanted.get('organization') or account.user}/{wanted['name']}"
    hub.writable(attrs.evolve(request, parts={"repository": name}))
    hub.delete(name)
    return told({})


def _settings(hub: HubState, request: Request) -> Reply:
    found, wanted = hub.writable(request), request.json()
    with found.lock:
        found.settings.private = _private(wanted, found.settings.private)
        if "gated" in wanted:
            found.settings.gated = bool(wanted["gated"])
        found.save()
    return told({})


def _sibling(name: str, file: File, blobs: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"rfilename": name}
    if blobs:
        entry |= {"blobId": file.oid, "size": file.size}
        if file.lfs:
            size = len(pointer(file.sha256, file.size))
            lfs = {"sha256": file.sha256, "size": file.size, "pointerSize": size}
            entry["lfs"] = lfs
    return entry


def _info(hub: HubState, request: Request) -> Reply:
    found = hub.readable(request)
    commit = found.at(request.revision, request.back)
    blobs = request.flag("blobs")
    fields = {
        "_id": found.name,
        "id": found.name,
        "modelId": found.name,
        "author": found.name.partition("/")[0],
        "sha": commit.id,
        "private": found.settings.private,
        "gated": "auto" if found.settings.gated else False,
        "disabled": found.settings.disabled,
        "lastModified": iso(commit.date),
        "createdAt": iso(found.settings.created),
        "usedStorage": found.storage.used,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": [_sibling(n, file, blobs) for n, file in commit.files.items()],
    }
    if "expand" in request.query:
        wanted = {"_id", "id", *request.query["expand"]}
        fields = {name: value for name, value in fields.items() if name in wanted}
    return told(fields)


def _auth_check(hub: HubState, request: Request) -> Reply:
    hub.downloadable(request)
    return told({})


def _auth_check_write(hub: HubState, request: Request) -> Reply:
    hub.writable(request)
    if _known(request).role == "pull-request":
        raise Refused(403, "Forbidden: your token may open pull requests only.")
    return told({})


def _refs(hub: HubState, request: Request) -> Reply:
    found = hub.readable(request)

    def shown(kind: str, names: list[str]) -> list[dict[str, str]]:
        commits = [(name, found.at(name, request.back).id) for name in names]
        return [
            {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit}
            for name, commit in commits
        ]

    with found.lock:
        branches = shown("heads", list(found.settings.branches))
        tags = shown("tags", list(found.settings.tags))
    return told(
        {"branches": branches, "tags": tags, "converts": [], "pullRequests": []}
    )


def _branch(hub: HubState, request: Request) -> Reply:
    start = request.json().get("startingPoint", "main")
    hub.writable(request).point("branches", request.revision, start)
    return told({})


def _delete_branch(hub: HubState, request: Request) -> Reply:
    hub.writable(request).point("branches", request.revision, None)
    return told({})


def _tag(hub: HubState, request: Request) -> Reply:
    name = request.json()["tag"]
    hub.writable(request).point("tags", name, request.revision)
    return told({})


def _delete_tag(hub: HubState, request: Request) -> Reply:
    hub.writable(request).point("tags", request.revision, None)
    return told({})


def _squash(hub: HubState, request: Request) -> Reply:
    title = request.json().get("message") or "Super-squash history"
    hub.writable(request).squash(request.revision, title)
    return told({})


def _validate_yaml(hub: HubState, request: Request) -> Reply:
    parts = request.json()["content"].split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        warning = "empty or missing yaml metadata in repo card"
        return told({"warnings": [{"message": warning}], "errors": []})
    try:
        yaml.safe_load(parts[1])
    except yaml.YAMLError as error:
        wrong = {"message": " ".join(str(error).split())}
        return told({"errors": [wrong], "warnings": []}, 400)
    return told({"warnings": [], "errors": []})


def _harnesses(hub: HubState, request: Request) -> Reply:
    return told({"standardEnvVars": [], "harnesses": {}})


_OWNED = "/settings/repositories"
_MODEL = "/api/models/{repository}"
ROUTES = [
    route("whoami", "GET", "/api/whoami-v2", _whoami),
    route("storage", "GET", "/api" + _OWNED, _storage),
    route("storage", "GET", "/api/organizations/{owner}" + _OWNED, _storage),
    route("create", "POST", "/api/repos/create", _create),
    route("delete", "DELETE", "/api/repos/delete", _delete),
    route("validate-yaml", "POST", "/api/validate-yaml", _validate_yaml),
    route("agent-harnesses", "GET", "/api/agent-harnesses", _harnesses),
    route("info", "GET", _MODEL, _info),
    route("info", "GET", _MODEL + "/revision/{revision}", _info),
    route("settings", "PUT", _MODEL + "/settings", _settings),
    route("auth-check", "GET", _MODEL + "/auth-check", _auth_check),
    route("auth-check-write", "GET", _MODEL + "/auth-check/write", _auth_check_write),
    route("refs", "GET", _MODEL + "/refs", _refs),
    route("branch", "POST", _MODEL + "/branch/{revision}", _branch),
    route("branch", "DELETE", _MODEL + "/branch/{revision}", _delete_branch),
    route("tag", "POST", _MODEL + "/tag/{revision}", _tag),
    route("tag", "DELETE", _MODEL + "/tag/{revision}", _delete_tag),
    route("squash", "POST", _MODEL + "/super-squash/{revision}", _squash),
]
