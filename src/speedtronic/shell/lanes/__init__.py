"""Lanes: named blobs in revisions, the only thing that nodes of a run share."""
