"""Who may act for whom on the publish queue, by what SQS says of a message's sender."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import clock
from fanfold.aws.senders import UNKNOWN, SenderRule, Senders, chain, identity
from fanfold.errors import NotTheirs
from fanfold.ids import ref_id_for

NEWS, SHOP, OPERATOR = "AROANEWSNEWSNEWS", "AIDASHOPSHOPSHOP", "AROAOPERATOROPER"
WIDE = "AROAWIDEWIDEWIDE"
SENDERS = Senders.read(
    f"{NEWS}=news-* tv,{SHOP}=shop/shop:* s1,{OPERATOR}=*,{SHOP}=sale/sale:*,{WIDE}=*/wide:*"
)
# What the door of users makes, of a key and at random.
DOORS_OWN = [ref_id_for("alice", "key-1"), clock.new_id()]


def may(
    sender_id: str, actor: str, carried: str = "", takes: str = "", senders: Senders = SENDERS
) -> bool:
    try:
        senders.check(actor, sender_id=sender_id, carried=carried, takes=takes)
    except NotTheirs:
        return False
    return True


@pytest.mark.parametrize("sender_id", [NEWS, f"{NEWS}:any-session"])
def test_a_role_acts_only_for_the_ids_of_its_rule_in_any_session(sender_id: str) -> None:
    assert all(may(sender_id, each) for each in ("news-", "news-1", "tv"))
    others = ("news", "tv2", "t", "News-1", "shop", "xnews-1")
    assert not any(may(sender_id, each) for each in others)


@pytest.mark.parametrize(
    "sender_id", ["", UNKNOWN, NEWS[:-1], f"x{NEWS}", f" {NEWS}", f"{SHOP}:{NEWS}", "\u00e9"]
)
def test_a_sender_without_a_rule_acts_for_nobody(sender_id: str) -> None:
    assert not may(sender_id, "tv")


@pytest.mark.parametrize("ref_id", DOORS_OWN, ids=["of a key", "at random"])
def test_no_sender_may_use_ids_of_the_api_unless_its_rule_allows_it(ref_id: str) -> None:
    """Or whoever knows a user's key, which is no secret, takes the id of the post beforehand."""
    assert not may(NEWS, "news-1", takes=ref_id)
    assert not may(SHOP, "shop", takes=ref_id)
    assert not may(WIDE, "alice", takes=ref_id)
    assert may(OPERATOR, "alice", takes=ref_id)
    assert not may(OPERATOR, "news-1", carried=NEWS, takes=ref_id)
    Senders.read(f"{NEWS}=news-*/*").check("news-1", sender_id=NEWS, carried="", takes=ref_id)


@pytest.mark.parametrize("ref_id", ["r", str(UUID(int=1)), "0" * 31, "0" * 33, "F" * 32, "s12"])
def test_a_sender_without_reserved_ids_may_use_any_unreserved_id(ref_id: str) -> None:
    assert may(NEWS, "news-1", takes=ref_id)


@pytest.mark.parametrize(
    ("of_news", "of_shop", "takes"),
    [
        ("tv", "shop/shop:*", False),
        ("tv", "shop/a b shop:1", False),
        ("tv", "shop/*", True),  # any at all is not its own
        ("tv", "shop/shop:* *", False),
        ("tv", "shop/shops:*", True),
        ("tv/shop:*", "shop/shop:*", True),
        (f"tv,{NEWS}=tv2/shop:*", "shop/shop:*", True),
        (f"tv,{NEWS}=tv2/shop:2*", "shop/shop:*", False),
        ("tv/*", "shop/shop:*", True),
        ("*", "shop/shop:*", True),  # or nobody could redrive what the shop has sent
    ],
)
def test_reserved_ids_are_only_for_senders_with_a_rule_for_them(
    of_news: str, of_shop: str, takes: bool
) -> None:
    senders = Senders.read(f"{NEWS}={of_news},{SHOP}={of_shop}")
    assert may(NEWS, "tv", takes="shop:1", senders=senders) == takes


def test_a_refusal_names_the_sender_the_id_and_what_to_do() -> None:
    with pytest.raises(NotTheirs, match=f"'{NEWS}' may not act for 'ada'.*'senders'.*redrive"):
        SENDERS.check("ada", sender_id=f"{NEWS}:session", carried="")
    may_not = f"'{SHOP}' may not take the ref_id 'news:1' for 'shop'.*'senders'.*redrive"
    with pytest.raises(NotTheirs, match=may_not):
        SENDERS.check("shop", sender_id=SHOP, carried="", takes="news:1")


def test_who_may_act_for_everybody_moves_a_letter_back_with_its_first_senders_rights() -> None:
    assert may(OPERATOR, "tv", carried=NEWS)
    assert may(OPERATOR, "tv", carried=f"{OPERATOR}:other {NEWS}")
    assert not may(OPERATOR, "ada", carried=NEWS)
    assert not may(OPERATOR, "ada", carried=f"{OPERATOR} {NEWS} {OPERATOR}")
    assert not may(OPERATOR, "ada", carried=UNKNOWN)
    assert may(OPERATOR, "ada")
    assert may(OPERATOR, "shop", carried=SHOP, takes="shop:1")
    assert not may(OPERATOR, "news-1", carried=NEWS, takes="shop:1")
    assert may(WIDE, "ada", carried=NEWS), "for everybody, but with some ids alone: not believed"


@given(st.text(), st.text())
def test_whatever_a_message_carries_lends_its_sender_nothing(carried: str, actor: str) -> None:
    assert may(NEWS, actor, carried) == (actor == "tv" or actor.startswith("news-"))
    assert not may(UNKNOWN, actor, carried)


@given(st.text(max_size=300), st.text())
def test_what_a_letter_carries_is_short_and_fits_an_attribute(sender_id: str, carried: str) -> None:
    found = chain(sender_id, carried)
    assert 0 < len(found) <= 11 * 161
    assert found.isascii()
    assert found.split()[0] == identity(sender_id)
    assert chain(sender_id, found) == found  # moved back again by the same


@pytest.mark.parametrize(
    "text",
    [
        *("", "AROANEWSNEWSNEWS", "AROANEWSNEWSNEWS=", "=ada", "aroanewsnewsnews=ada", "AROA=ada"),
        *("AROANEWSNEWSNEWS=a*b", "AROANEWSNEWSNEWS=**", "AROANEWSNEWSNEWS=a#b", "12345=ada"),
        *("AROANEWSNEWSNEWS=ada/", "AROANEWSNEWSNEWS=/a", "AROANEWSNEWSNEWS=a/b/c"),
        *("arn:aws:iam::123456789012:role/news=ada", "AROANEWSNEWSNEWS:session=ada"),
    ],
)
def test_a_rule_that_names_no_sender_or_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is (no|neither)"):
        SenderRule.read(text)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{NEWS}=news-* tv", f"{NEWS}=a b*/c d*", f"{SHOP}=*", "123456789012=a"),
        "123456789012:bob=a=b",
    ],
)
def test_a_rule_is_written_in_the_form_that_is_parsed(text: str) -> None:
    assert SenderRule.read(text).text == text


def test_the_oldest_sender_is_kept_however_many_have_moved_a_letter_back() -> None:
    """Or a letter that was refused would be accepted after some redrives by different people."""
    carried = "AIDAOLDEST000"
    for number in range(30):
        carried = chain(f"AIDAOPERATOR{number:02}", carried)
    assert carried.split()[0] == "AIDAOPERATOR29"
    assert carried.split()[-1] == "AIDAOLDEST000"
    assert len(carried.split()) <= 11
