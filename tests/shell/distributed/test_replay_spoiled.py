"""What a replay says of a run that somebody spoiled: which round, and what."""

from typing import Any

import attrs
import pytest
from tests.shell.distributed.tampering import (
    ANCHOR,
    FIRST,
    HEAD,
    Changes,
    content,
    deltas,
    flipped,
    forged,
    forged_everywhere,
    kept,
    lane_of,
    manifest,
    problems,
    spoiled,
)

from speedtronic.errors import Corrupt
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round import chain, names
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round.rule import RoundRule, to_numbers
from speedtronic.shell.distributed.replay import replay

WEIGHTS, MOMENTUM = names.WEIGHTS, names.MOMENTUM


def test_one_bit_of_a_delta_is_found_in_its_round() -> None:
    """What follows is not compared, until the anchor."""
    told = spoiled(flipped(deltas(6)[0]))
    name = manifest(6).accepted[0]
    goes_on = "the comparison goes on from its published files"

    assert [6, 7, 8] == list(told)
    assert told[6].startswith(f"delta {name.seq} of {name.node}: its payload is not")
    assert "it follows round 6, which did not verify" == told[7]
    assert f"{told[7]}; {goes_on}" == told[8]


def test_one_bit_of_a_header_is_found() -> None:
    """A delta's name is the hash of its header."""
    place = deltas(6)[0]
    at = content()[place].index(b"inner_steps") + 14
    told = spoiled(flipped(place, byte=at))

    assert 6 == min(told) and "the name says id" in told[6]


@pytest.mark.parametrize("file", [WEIGHTS, MOMENTUM])
def test_one_bit_of_an_anchor_is_found_with_its_tensor(file: str) -> None:
    """The rounds around it are right all the same."""
    told = spoiled(flipped(kept(ANCHOR, file)))
    tensor, size = ("mean", 7) if file == WEIGHTS else ("w", 40_000)

    assert [ANCHOR] == list(told)
    assert told[ANCHOR].startswith(
        f"rounds/8/{file} has other bytes than the manifest says: tensor '{tensor}': "
        f"1 of {size} elements, by at most "
    )
    assert " ulp)" in told[ANCHOR]


def test_one_bit_of_the_first_anchor_leaves_nothing_to_begin_with() -> None:
    """Until the next one."""
    told = spoiled(flipped(kept(FIRST, WEIGHTS)))

    assert [4, 5, 6, 7, 8] == list(told)
    assert (
        "rounds/4/model.safetensors has other bytes than the manifest says" == told[4]
    )


def test_one_bit_of_the_newest_model_is_found() -> None:
    """It lies at the root, for everybody to load."""
    told = spoiled(flipped(WEIGHTS))

    assert [HEAD] == list(told)
    assert (
        "model.safetensors has other bytes than the manifest says: tensor"
        in (told[HEAD])
    )


def test_a_published_file_that_is_no_file_is_found() -> None:
    """There is no tensor to name."""
    told = spoiled({kept(ANCHOR, WEIGHTS): b"not a safetensors file"})

    assert told[ANCHOR].endswith("says: it is not a whole safetensors file")


@pytest.mark.parametrize("name", [WEIGHTS, MOMENTUM])
def test_half_an_anchor_is_told(name: str) -> None:
    """Somebody took the other half."""
    told = spoiled({kept(ANCHOR, name): None})

    assert {ANCHOR: f"rounds/8/{name} is not there"} == told


@pytest.mark.parametrize("byte", [1, 200, -3], ids=["front", "inside", "end"])
def test_one_bit_of_a_manifest_is_found_in_its_round(byte: int) -> None:
    """A manifest names its own hash."""
    told = spoiled(flipped(kept(6), byte))

    assert 6 == min(told)
    assert told[6].startswith("rounds/6/manifest.json")
    assert "it follows round 6, which did not verify" == told[7]


def test_a_manifest_that_is_missing_is_found() -> None:
    """So are several in a row, in one line."""
    assert "its manifest is not kept" == spoiled({kept(6): None})[6]
    told = spoiled({kept(6): None, kept(7): None})
    assert {6, 8} == told.keys()
    assert "the manifests of rounds 6 to 7 are not kept" == told[6]


def test_swapped_manifests_are_found() -> None:
    """At both places."""
    told = spoiled({kept(6): content()[kept(7)], kept(7): content()[kept(6)]})

    assert "expected the manifest of round 6, found that of round 7" == told[6]
    assert "expected the manifest of round 7, found that of round 6" == told[7]
    assert {6, 7, 8} == told.keys()


def test_swapped_rounds_are_found() -> None:
    """With all their files."""
    moved: Changes = {}
    for one, other in ((6, 7), (7, 6)):
        there = [name for name in content() if name.startswith(f"rounds/{one}/")]
        moved |= {name: None for name in there if name not in moved}
        moved |= {
            name.replace(f"rounds/{one}/", f"rounds/{other}/"): content()[name]
            for name in there
        }
    told = spoiled(moved)

    assert "expected the manifest of round 6, found that of round 7" == told[6]
    assert {6, 7, 8} == told.keys()


def test_a_copy_of_a_round_accuses_only_itself() -> None:
    """The genuine one stays above suspicion."""
    told = spoiled({kept(6): content()[kept(7)]})

    assert {6, 7, 8} == told.keys()
    assert "it follows round 6, which did not verify" == told[7]


def test_a_delta_that_is_missing_is_found() -> None:
    """With its name."""
    place = deltas(6)[0]
    told = spoiled({place: None})

    assert 6 == min(told) and told[6].endswith(f": {place} is not there")


def test_a_delta_that_is_too_large_is_not_fetched() -> None:
    """Somebody might fill the disk."""
    place = deltas(6)[0]
    told = spoiled({place: content()[place] + bytes(2**21)})

    assert 6 == min(told) and "expected at most" in told[6]


def test_a_delta_listed_twice_in_one_round_is_found() -> None:
    """The manifest contradicts itself."""
    accepted = manifest(6).accepted
    told = spoiled(forged(6, accepted=(accepted[0], *accepted)))

    assert 6 == min(told) and "found a stream twice" in told[6]


def counted_again(round: int) -> Changes:
    """A manifest that counts a delta of the round before once more, and its file."""
    old, new = manifest(round - 1), manifest(round)
    again = old.accepted[0]
    register = attrs.evolve(old.register(again.stream), round=round)
    others = tuple(n for n in new.accepted if n.stream != again.stream)
    accepted = tuple(sorted((again, *others)))
    streams = {r.stream: r for r in new.ledger} | {again.stream: register}
    own = chain.round_id(
        old.round_id, new.run, round, new.weights, new.momentum, accepted
    )
    return {
        **forged(
            round,
            accepted=accepted,
            ledger=tuple(streams[s] for s in sorted(streams)),
            round_id=own,
            recent=(*new.recent[:-1], own),
        ),
        again.kept(round): content()[again.kept(round - 1)],
    }


def test_a_delta_listed_again_in_the_next_round_is_found() -> None:
    """Although that manifest is consistent and its hash is right."""
    told = spoiled(counted_again(7))

    assert 7 == min(told)


def test_a_delta_of_a_round_long_ago_is_found(monkeypatch: Any) -> None:
    """Also if the rounds that are asked for begin behind it."""
    monkeypatch.setattr("speedtronic.pure.round.audit.apart", lambda old, new: "")
    again = manifest(6).accepted[0]
    told = problems(replay(lane_of({**content(), **counted_again(7)}), first=7))

    assert told[7] == (
        f"delta {again.seq} of stream {again.stream} (node {again.node}) counted in "
        "round 6 already"
    )


OTHER_RULE = to_numbers(RoundRule(outer=OuterRule(learning_rate=0.6)))


def test_wrong_numbers_of_the_rule_are_found_in_their_round() -> None:
    """The numbers belong to the run."""
    told = spoiled(forged(6, outer=OTHER_RULE))

    assert 6 == min(told) and "expected outer" in told[6]
    assert {6, 7, 8} == told.keys()


def test_wrong_numbers_everywhere_do_not_give_the_published_bits() -> None:
    """The next published model shows where, and by how much."""
    told = spoiled(forged_everywhere(outer=OTHER_RULE))

    assert [5, 6, 7, 8, 9] == list(told)
    assert "model.safetensors has sha256 " in told[5] and "no tensor" in told[5]
    assert "it follows round 5, which did not verify" == told[6]
    assert (
        "model.safetensors is not what was published: tensor 'c': 10 of 10" in told[8]
    )
    assert "tensor" in told[9]


def test_a_rule_that_nobody_knows_is_told() -> None:
    """Another version may have written it."""
    told = spoiled(forged_everywhere(outer=(("aggregate", "krum"),)))

    assert told[5].startswith("manifest.outer.aggregate: expected one of mean,")


def test_a_manifest_kept_ahead_of_the_head_is_told() -> None:
    """Somebody put the root back."""
    told = spoiled({names.MANIFEST: content()[kept(8)]})

    assert "it is kept, but the run is at round 8" == told[9]


def test_a_newest_manifest_that_is_another_one_is_told() -> None:
    """Of the same round, and consistent with itself."""
    head = manifests.parse(content()[names.MANIFEST])
    other = attrs.evolve(head, nonce="ab" * 8 + "-7")
    told = spoiled({names.MANIFEST: manifests.encode(other)})

    assert {HEAD: "manifest.json is not the one kept of it"} == told


def test_a_newest_manifest_that_is_none_ends_it() -> None:
    """Nothing can be reached without it."""
    with pytest.raises(Corrupt, match=r"^manifest\.json"):
        replay(lane_of({**content(), **flipped(names.MANIFEST)}))
