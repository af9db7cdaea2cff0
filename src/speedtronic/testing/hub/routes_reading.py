"""What is in a repository: listings, facts about paths, contents, the history."""

import re
from typing import Any
from urllib.parse import parse_qs, urlencode

from speedtronic.testing.hub.messages import (
    Refused,
    Reply,
    Request,
    told,
)
from speedtronic.testing.hub.routing import route
from speedtronic.testing.hub.state import HubState
from speedtronic.testing.hub.trees import folders, listed, tree_oid
from speedtronic.testing.hub.values import (
    Commit,
    File,
    iso,
    pointer,
)

_EXPANDED_PAGE = 50  # entries of a page with all details
_MOST_PATHS = 1000  # in one request for facts about paths
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def _file_entry(name: str, file: File) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "path": name,
        "size": file.size,
        "oid": file.oid,
    }
    if file.lfs:
        size = len(pointer(file.sha256, file.size))
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": size}
    return entry


def _folder_entry(name: str, commit: Commit) -> dict[str, Any]:
    inside = {n: f for n, f in commit.files.items() if n.startswith(name + "/")}
    return {"type": "directory", "path": name, "oid": tree_oid(inside), "size": 0}


def _page(hub: HubState, request: Request, items: list[Any], most: int) -> Reply:
    """One page of a listing, with the address of the next."""
    start = int(request.query.get("cursor", ["0"])[-1])
    headers = {}
    if start + most < len(items):
        path = request.target.partition("?")[0]
        query = {**request.query, "cursor": [str(start + most)]}
        where = f"{hub.endpoint}{path}?{urlencode(query, doseq=True)}"
        headers["Link"] = f'<{where}>; rel="next"'
    return told(items[start : start + most], headers=headers)


def _tree(hub: HubState, request: Request) -> Reply:
    commit = hub.readable(request).at(request.revision, request.back)
    place = request.parts.get("path", "").strip("/")
    inner, names = listed(commit.files, place, deep=request.flag("recursive"))
    items = [_folder_entry(name, commit) for name in inner]
    items += [_file_entry(name, commit.files[name]) for name in names]
    most = hub.limits.page_entries
    if request.flag("expand"):
        most = min(most, _EXPANDED_PAGE)
    return _page(hub, request, items, most)


def _paths_info(hub: HubState, request: Request) -> Reply:
    form = parse_qs(request.body().decode())
    paths = form.get("paths", [])
    if len(paths) > _MOST_PATHS:
        raise Refused(413, f"Too many paths: {len(paths)}")
    commit = hub.readable(request).at(request.revision, request.back)
    every = {folder for name in commit.files for folder in folders(name)}
    found = []
    for path in paths:
        if path in commit.files:
            found.append(_file_entry(path, commit.files[path]))
        elif path in every:
            found.append(_folder_entry(path, commit))
    return told(found)


def _commits(hub: HubState, request: Request) -> Reply:
    line = hub.readable(request).line(request.revision, request.back)
    items = [
        {
            "id": commit.id,
            "title": commit.title,
            "message": commit.message,
            "date": iso(commit.date),
            "authors": [{"user": commit.user}],
        }
        for commit in line
    ]
    return _page(hub, request, items, hub.limits.page_entries)


def _resolve(hub: HubState, request: Request) -> Reply:
    found = hub.downloadable(request)
    commit = found.at(request.revision, request.back)
    name = request.parts["path"]
    content = found.content(commit, name)
    file = commit.files[name]
    headers = {
        "X-Repo-Commit": commit.id,
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
        "ETag": f'"{file.sha256 if file.lfs else file.oid}"',
    }
    if file.lfs:
        headers["X-Linked-Etag"] = f'"{file.sha256}"'
        headers["X-Linked-Size"] = str(file.size)
    wanted = _RANGE.fullmatch(request.headers.get("range", ""))
    if wanted is None or request.method == "HEAD":
        return Reply(200, content, headers)
    start = int(wanted[1])
    stop = min(int(wanted[2]) + 1 if wanted[2] else file.size, file.size)
    if start >= stop:
        lacking = {"Content-Range": f"bytes */{file.size}"}
        raise Refused(416, "Requested range not satisfiable", headers=lacking)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Reply(206, content[start:stop], headers)


_MODEL = "/api/models/{repository}"
ROUTES = [
    route("tree", "GET", _MODEL + "/tree/{revision}", _tree),
    route("tree", "GET", _MODEL + "/tree/{revision}/{path}", _tree),
    route("paths-info", "POST", _MODEL + "/paths-info/{revision}", _paths_info),
    route("commits", "GET", _MODEL + "/commits/{revision}", _commits),
    route("resolve-head", "HEAD", "/{repository}/resolve/{revision}/{path}", _resolve),
    route("resolve-get", "GET", "/{repository}/resolve/{revision}/{path}", _resolve),
]
