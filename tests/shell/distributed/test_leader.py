"""A leader's effects: reading deltas, the outer step, the commit of a round."""

from hashlib import sha256
from pathlib import Path

import attrs
import pytest
import torch
from tests.pure.round import values
from tests.shell.distributed.test_files import header

from speedtronic.errors import Conflict, Corrupt, LaneError
from speedtronic.pure.aggregate import aggregate
from speedtronic.pure.delta import Delta, Weights, from_named
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.round import chain, names
from speedtronic.pure.round import events as e
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round.admit import Candidate
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.ledger import decide
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import File, Manifest
from speedtronic.pure.round.rule import RoundRule, origin_of, to_numbers
from speedtronic.pure.tree import tree_map
from speedtronic.shell import blobs
from speedtronic.shell.distributed.files import read_weights, write_delta
from speedtronic.shell.distributed.leader import Harm, Leader, Made, Round
from speedtronic.shell.lanes.memory import MemoryLane

RULE = RoundRule(aggregate="token_mean", outer=OuterRule(momentum=0.5))
FIRST = Weights(params={"w": torch.randn(40, 3)}, buffers={"n": torch.tensor(4)})
LIKES: Weights = tree_map(lambda x: x.to("meta"), FIRST)


@attrs.define
class Run:
    """A lane with round 0 and some deltas, and its leader."""

    lane: MemoryLane
    leader: Leader
    manifest: Manifest
    folder: Path

    @property
    def head(self) -> str:
        """The newest revision."""
        found = self.lane.head()
        assert found is not None
        return found

    def send(
        self, node: str, tokens: int, *, spoil: bool = False, size: float = 1.0
    ) -> Header:
        """Put a delta on the lane."""
        delta = Delta(params={"w": size * torch.randn(40, 3)}, buffers={})
        stream = sha256(node.encode()).hexdigest()[:16]
        told = attrs.evolve(
            header(delta),
            node=node,
            stream=stream,
            tokens=tokens,
            run=self.manifest.run,
            base_id=self.manifest.round_id,
        )
        path = self.folder / "sent"
        path.unlink(missing_ok=True)
        write_delta(path, delta, told)
        data = path.read_bytes()
        data = data[:-1] + bytes([data[-1] ^ 1]) if spoil else data
        self.lane.commit({told.name.path: data}, parent=self.head)
        return told

    def inspect(self, *headers: Header) -> tuple[Candidate, ...]:
        """Read them."""
        effect = e.Inspect(revision=self.head, names=tuple(h.name for h in headers))
        found, broken = self.leader.inspect(effect, [])
        assert () == broken
        return found


def folded(leader: Leader, fold: e.Fold) -> tuple[File, File]:
    """The files of a round that does no harm."""
    made = leader.fold(fold)
    assert isinstance(made, Round)
    return made.weights, made.momentum


def begun(tmp_path: Path, renamed: dict[str, str] | None = None) -> Run:
    """Publish round 0."""
    (folder := tmp_path / "leader").mkdir()
    lane = MemoryLane()
    leader = Leader(
        lane, folder, LIKES, renamed or {}, lambda made: {"run.json": b"the recipe"}
    )
    weights, momentum = leader.make(init_outer(FIRST, RULE.outer))
    manifest = chain.genesis(
        lineage="0" * 64,
        limits=Limits(),
        outer=to_numbers(RULE),
        weights=weights,
        momentum=momentum,
        node="a",
        life=values.LIFE,
        nonce=f"{values.LIFE}-0",
    )
    leader.publish(e.Publish(parent=None, manifest=manifest, fresh=True))
    return Run(lane=lane, leader=leader, manifest=manifest, folder=tmp_path)


def test_the_first_round_is_one_commit(tmp_path: Path) -> None:
    """With what goes beside it, under the names of other tools."""
    run = begun(tmp_path, {"w": "model.w"})
    assert ["manifest.json", "model.safetensors", "outer.safetensors", "run.json"] == (
        list(run.lane.names("", run.head))
    )
    assert run.manifest == manifests.parse(run.lane.read("manifest.json", run.head))
    run.lane.fetch("model.safetensors", run.head, tmp_path / "w")
    assert torch.equal(FIRST.params["w"], read_weights(tmp_path / "w").params["w"])


def test_a_delta_is_judged_by_its_bytes(tmp_path: Path) -> None:
    """The header announces a sum; the facts hold that of what came."""
    run = begun(tmp_path)
    good, bad = run.send("b", 5), run.send("c", 5, spoil=True)
    one, other = run.inspect(good, bad)
    assert (good, bad) == (one.header, other.header)
    assert good.payload == one.facts.payload
    assert bad.payload != other.facts.payload
    assert one.facts.norm > 0


def test_what_is_no_delta_is_said_and_what_is_gone_left_out(tmp_path: Path) -> None:
    """Anybody who may write may put anything there."""
    run = begun(tmp_path)
    sent = run.send("b", 5)
    gone = attrs.evolve(sent, seq=9).name
    name = names.parse_delta(f"nodes/x/{'0' * 16}-1-{'e' * 64}.safetensors")
    run.lane.commit({name.path: b"not a delta"}, parent=run.head)
    effect = e.Inspect(revision=run.head, names=(name, gone, sent.name))
    candidates, broken = run.leader.inspect(effect, [])
    assert [sent.name] == [c.name for c in candidates]
    assert [name] == [b.name for b in broken]
    assert "not a whole safetensors file" in broken[0].reason


def test_a_round_is_the_pure_outer_step(tmp_path: Path) -> None:
    """Over the deltas that were accepted, weighed by their headers."""
    run = begun(tmp_path)
    sent = [run.send("c", 30), run.send("b", 10)]
    found = run.inspect(*sent)
    deltas = {}
    for told in sent:
        run.lane.fetch(told.name.path, run.head, tmp_path / "d")

        deltas[origin_of(told, 1)] = from_named(blobs.read(tmp_path / "d"))
    expected, _ = outer_step(
        init_outer(FIRST, RULE.outer),
        aggregate(deltas, RULE.aggregator),
        RULE.outer,
    )
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
    files = folded(run.leader, fold)
    registers = tuple(decide(run.manifest, h, "accepted") for h in sent)
    new = chain.decided(run.manifest, registers, (), f"{values.LIFE}-1", files)
    run.leader.publish(
        e.Publish(
            parent=run.head,
            manifest=new,
            fresh=True,
            copies=tuple((h.name.path, h.name.kept(1)) for h in sent),
            deletes=tuple(h.name.path for h in sent),
        )
    )
    run.lane.fetch("model.safetensors", run.head, tmp_path / "w")
    weights = read_weights(tmp_path / "w")
    assert torch.equal(expected.weights.params["w"], weights.params["w"])
    assert {} == run.lane.names("nodes/", run.head)
    assert 2 == len(run.lane.names("rounds/1/", run.head))


def test_a_heir_has_nothing_of_its_own(tmp_path: Path) -> None:
    """It fetches what it needs, and comes to the same files."""
    run = begun(tmp_path)
    found = run.inspect(run.send("b", 10))
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
    (other := tmp_path / "heir").mkdir()
    assert run.leader.fold(fold) == Leader(run.lane, other, LIKES, {}).fold(fold)


def test_a_delta_that_changes_after_it_was_judged_is_refused(tmp_path: Path) -> None:
    """The files here are gone, and the lane gives other bytes."""
    run = begun(tmp_path)
    sent = run.send("b", 10)
    found = run.inspect(sent)
    data = bytearray(run.lane.read(sent.name.path, run.head))
    data[-1] ^= 1
    run.lane.commit({sent.name.path: bytes(data)}, parent=run.head)
    (other := tmp_path / "heir").mkdir()
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
    with pytest.raises(Corrupt, match="other bytes than were judged"):
        Leader(run.lane, other, LIKES, {}).fold(fold)


def test_weights_that_changed_are_refused(tmp_path: Path) -> None:
    """The manifest names their sum."""
    run = begun(tmp_path)
    found = run.inspect(run.send("b", 10))
    data = bytearray(run.lane.read("model.safetensors", run.head))
    data[-1] ^= 1
    run.lane.commit({"model.safetensors": bytes(data)}, parent=run.head)
    (other := tmp_path / "heir").mkdir()
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
    with pytest.raises(Corrupt, match="the manifest says sha256"):
        Leader(run.lane, other, LIKES, {}).fold(fold)


def test_a_commit_on_another_head_writes_nothing(tmp_path: Path) -> None:
    """The look that it was decided on is over."""
    run = begun(tmp_path)
    before = run.head
    run.send("b", 10)
    renewed = chain.decided(run.manifest, (), (), f"{values.LIFE}-1", None)
    with pytest.raises(Conflict):
        run.leader.publish(e.Publish(parent=before, manifest=renewed))


def test_files_that_are_gone_are_not_published(tmp_path: Path) -> None:
    """A round without its weights would be none."""
    run = begun(tmp_path)
    (other := tmp_path / "heir").mkdir()
    with pytest.raises(LaneError, match=r"model\.safetensors of round 0 is gone"):
        Leader(run.lane, other, LIKES, {}).publish(
            e.Publish(parent=run.head, manifest=run.manifest, fresh=True)
        )


def test_folders_hold_no_more_than_is_needed(tmp_path: Path) -> None:
    """However many rounds there are."""
    run = begun(tmp_path)
    for _ in range(5):
        found = run.inspect(run.send("b", 10))
        run.leader.fold(
            e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
        )
    files = [p for p in (tmp_path / "leader").rglob("*") if p.is_file()]
    assert 5 == len(files)  # one delta, weights and momentum before and after


def test_a_round_is_published_with_its_headers_and_the_card_before(
    tmp_path: Path,
) -> None:
    """So that whoever writes the next card can go on counting."""
    run = begun(tmp_path)
    seen: list[Made] = []

    def beside(made: Made) -> dict[str, bytes]:
        seen.append(made)
        return {names.README: b"round %d" % made.manifest.round}

    (folder := tmp_path / "other").mkdir()
    leader = Leader(run.lane, folder, LIKES, {}, beside)
    for number in (1, 2):
        sent = run.send("b", tokens=number * 10)
        run = attrs.evolve(run, leader=leader)
        effect = e.Fold(
            revision=run.head, manifest=run.manifest, accepted=run.inspect(sent)
        )
        files = folded(leader, effect)
        register = decide(run.manifest, sent, "accepted")
        new = chain.decided(
            run.manifest, (register,), (), f"{values.LIFE}-{number}", files
        )
        leader.publish(
            e.Publish(
                parent=run.head, manifest=new, fresh=True, deletes=(sent.name.path,)
            )
        )
        run = attrs.evolve(run, manifest=new)

    assert [(10,), (20,)] == [tuple(h.tokens for h in m.headers) for m in seen]
    assert [None, b"round 1"] == [made.card for made in seen]
    assert b"round 2" == run.lane.read(names.README, run.head)


@pytest.mark.parametrize("page", [None, b"x" * 2**18 + b"x"], ids=["none", "long"])
def test_a_page_that_is_no_card_is_not_read(tmp_path: Path, page: bytes | None) -> None:
    """The round is published all the same."""
    run = begun(tmp_path)
    if page is not None:
        run.lane.commit({names.README: page}, parent=run.head)
    seen: list[Made] = []
    (folder := tmp_path / "other").mkdir()
    leader = Leader(run.lane, folder, LIKES, {}, lambda m: seen.append(m) or {})
    sent = run.send("b", 10)
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=run.inspect(sent))
    files = folded(leader, fold)
    register = decide(run.manifest, sent, "accepted")
    new = chain.decided(run.manifest, (register,), (), f"{values.LIFE}-1", files)
    leader.publish(e.Publish(parent=run.head, manifest=new, fresh=True))

    assert [None] == [made.card for made in seen]


class Distance:
    """Judges by how far the weights are from where they began."""

    bound = 0.5

    def __init__(self) -> None:
        self.calls = 0

    def loss(self, weights: Weights) -> float:
        """One, and more the farther away."""
        self.calls += 1
        apart = weights.params["w"] - FIRST.params["w"]
        return 1.0 + apart.abs().max().item() / 100


def test_a_harmful_round_names_who_did_it(tmp_path: Path) -> None:
    """One delta of four; the others alone make a round."""
    run = begun(tmp_path)
    sent = [run.send(n, 9, size=1.0 if n != "c" else 1e6) for n in "abcd"]
    found = run.inspect(*sent)
    (folder := tmp_path / "guarded").mkdir()
    guard = Distance()
    leader = Leader(run.lane, folder, LIKES, {}, guard=guard)
    harm = leader.fold(e.Fold(revision=run.head, manifest=run.manifest, accepted=found))
    assert isinstance(harm, Harm)
    assert (sent[2].name,) == harm.names
    assert harm.reason.startswith("harmful: with it the held-out loss goes from 1 to ")
    rest = tuple(c for c in found if c.name not in harm.names)
    made = leader.fold(e.Fold(revision=run.head, manifest=run.manifest, accepted=rest))
    assert isinstance(made, Round)
    assert guard.calls <= 3 + 2 * len(found)  # what was, what would be, halves, again


def test_what_a_rule_made_much_smaller_is_told(tmp_path: Path) -> None:
    """Not what it made a little smaller, which is every second delta."""
    run = begun(tmp_path)
    rule = RoundRule(aggregate="norm_clip", outer=RULE.outer)
    manifest = attrs.evolve(run.manifest, outer=to_numbers(rule))
    sizes = {"a": 1.0, "b": 3.0, "c": 90.0}
    sent = [run.send(node, 9, size=size) for node, size in sizes.items()]
    found = run.inspect(*sent)
    made = run.leader.fold(e.Fold(revision=run.head, manifest=manifest, accepted=found))
    assert isinstance(made, Round)
    assert (sent[2].name,) == made.clipped


def test_a_model_that_is_not_finite_is_not_published(tmp_path: Path) -> None:
    """Each delta is finite; the largest one is to blame."""
    run = begun(tmp_path)
    sent = [run.send(n, 9, size=1e37 if n == "b" else 1.0) for n in "abc"]
    found = run.inspect(*sent)
    rule = RoundRule(outer=OuterRule(learning_rate=1e3, momentum=0.9))
    manifest = attrs.evolve(run.manifest, outer=to_numbers(rule))
    made = run.leader.fold(e.Fold(revision=run.head, manifest=manifest, accepted=found))
    assert isinstance(made, Harm)
    assert (sent[1].name,) == made.names


def test_what_is_kept_is_what_was_judged(tmp_path: Path) -> None:
    """Also where somebody wrote over it between the judgement and the commit."""
    run = begun(tmp_path)
    sent = run.send("a", 9)
    found = run.inspect(sent)
    fold = e.Fold(revision=run.head, manifest=run.manifest, accepted=found)
    files = folded(run.leader, fold)
    good = run.lane.read(sent.name.path, run.head)
    run.lane.commit({sent.name.path: b"ruin"}, parent=run.head)
    registers = tuple(decide(run.manifest, c.header, "accepted") for c in found)
    new = chain.decided(run.manifest, registers, (), f"{values.LIFE}-1", files)
    kept = sent.name.kept(1)
    run.leader.publish(
        e.Publish(
            parent=run.head,
            manifest=new,
            fresh=True,
            copies=((sent.name.path, kept),),
            deletes=(sent.name.path,),
        )
    )
    assert good == run.lane.read(kept, run.head)
