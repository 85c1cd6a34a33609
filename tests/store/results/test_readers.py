from __future__ import annotations

from rowcall.store.queries.results import NewRow
from rowcall.store.results.readers import Gap, _gaps_between, _without


def test_a_gap_shrinks_as_its_rows_arrive() -> None:
    gaps = _gaps_between([NewRow(0, 5, ""), NewRow(0, 9, ""), NewRow(2, 4, "")], [4, 0, 3], 7)
    assert gaps == [Gap(0, 6, 8, 7)]
    assert _without([Gap(0, 6, 8, 7)], [NewRow(0, 7, "")]) == [Gap(0, 6, 6, 7), Gap(0, 8, 8, 7)]
    assert _without([Gap(0, 6, 6, 7)], [NewRow(1, 6, ""), NewRow(0, 6, "")]) == []
