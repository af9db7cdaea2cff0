"""The log keeps to its bounds."""

from speedtronic.testing.hub.traffic import Entry, Traffic


def test_ten_thousand_requests_are_remembered_and_all_are_counted() -> None:
    """So a long run does not fill the memory."""
    traffic = Traffic()
    for _ in range(10_500):
        number = traffic.next()
        entry = Entry(number, "GET", "/", "info", None, 200, None, 0.0)
        traffic.add(entry)

    assert (10_000, 500) == (len(traffic.log()), traffic.log()[0].number)
    assert 10_500 == traffic.counts().of("info")
