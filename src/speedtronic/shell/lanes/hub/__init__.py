"""A lane in a model repository of the Hugging Face Hub.

`lane` is the lane and `preflight` finds out whether it can work. Below them: `client`
(every request, and the only module that imports huggingface_hub), `trouble` (what an
answer means), `heads` (which revision is the newest), `tree` (what a revision holds),
`download` and `cache` (contents), `staging` and `commit` (writing), `space` (history
and storage), `limiter` (the hourly budget), `options`.

Nothing is imported here, so that a program that only names this package starts fast.
"""
