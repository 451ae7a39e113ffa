"""Pages: records of what is paged out."""

from leveret.broker.pages import Pages, Sizes

PAGE_SIZE = Sizes().page_count


def test_part_of_the_records_is_shown() -> None:
    """SPEC §9.4: a peek reads some of what is paged out, over the bounds of pages."""
    pages = Pages(Sizes())
    for seq in range(1, 2 * PAGE_SIZE + 11):
        pages.add(seq, seq << 32, 5, seq % 3, seq % 2 == 0)
    found = pages.span(PAGE_SIZE - 2, 4)
    first = PAGE_SIZE - 1
    assert [record[0] for record in found] == [first, first + 1, first + 2, first + 3]
    assert found[1] == (PAGE_SIZE, PAGE_SIZE << 32, 5, PAGE_SIZE % 3, True)
    assert [record[0] for record in pages.span(2 * PAGE_SIZE + 8, 100)] == [2 * PAGE_SIZE + 9, 2 * PAGE_SIZE + 10]
    assert pages.span(2 * PAGE_SIZE + 10, 1) == pages.span(0, 0) == []
    assert pages.count == 2 * PAGE_SIZE + 10
