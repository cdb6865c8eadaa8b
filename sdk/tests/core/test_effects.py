"""What hints and names say of a tool: they may tighten; only a trusted server's hints loosen; opaque is unknown."""

from __future__ import annotations

import pytest
from recloser.core import effects, words
from recloser.core.effects import Basis
from recloser.core.types import SideEffectClass

READ, IDEMPOTENT, EFFECT, DESTROYS, UNKNOWN = (
    SideEffectClass.READ_ONLY,
    SideEffectClass.IDEMPOTENT_WRITE,
    SideEffectClass.SIDE_EFFECT,
    SideEffectClass.DESTRUCTIVE,
    SideEffectClass.UNKNOWN,
)


def each(names: str) -> list[str]:
    return names.split()


def by_name(name: str, server: str = "") -> SideEffectClass:
    return effects.of_name(name, server=server).side_effect


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({"readOnlyHint": True}, READ),
        ({"readOnlyHint": True, "idempotentHint": False}, READ),
        ({"readOnlyHint": False}, EFFECT),
        ({"readOnlyHint": False, "destructiveHint": False}, EFFECT),
        ({"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}, IDEMPOTENT),
        ({"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}, DESTROYS),
        ({"destructiveHint": True}, DESTROYS),
        ({"readOnlyHint": True, "destructiveHint": True}, DESTROYS),
    ],
)
def test_hints_map_to_classes_and_a_contradiction_counts_for_the_stricter_word(hints, expected):
    assert effects.of_hints(hints).side_effect is expected


@pytest.mark.parametrize("hints", [None, {}, [], "readOnlyHint", {"openWorldHint": True}, {"readOnlyHint": "true"}])
def test_what_states_nothing_is_no_hint(hints):
    assert effects.of_hints(hints) is None


def test_hints_of_an_untrusted_server_tighten_and_never_loosen():
    read_only, destructive = {"readOnlyHint": True}, {"destructiveHint": True}
    assert effects.claim("delete_user", read_only).side_effect is DESTROYS
    assert effects.claim("frobnicate", read_only).side_effect is UNKNOWN
    assert effects.claim("get_user", destructive).side_effect is DESTROYS
    claimed = effects.claim("get_user", read_only)
    assert (claimed.side_effect, claimed.handled()) == (READ, UNKNOWN)


def test_hints_of_a_trusted_server_are_believed():
    claimed = effects.claim("frobnicate", {"readOnlyHint": True}, trusted=True)
    assert claimed.basis is Basis.HINTS
    assert (claimed.side_effect, claimed.handled(trusted=True)) == (READ, READ)


def test_a_trusted_server_that_leaves_open_whether_it_destroys_is_read_by_the_name():
    assert effects.claim("delete_user", {"readOnlyHint": False}, trusted=True).side_effect is DESTROYS
    stated = {"readOnlyHint": False, "destructiveHint": False}
    assert effects.claim("delete_user", stated, trusted=True).side_effect is EFFECT


def test_a_name_is_only_ever_a_proposal():
    for name in ("get_user", "set_theme", "frobnicate"):
        assert effects.claim(name).handled(trusted=True) is UNKNOWN
    assert effects.claim("send_mail").handled() is EFFECT
    assert effects.claim("drop_table").handled() is DESTROYS


@pytest.mark.parametrize(
    "name",
    each("""
        delete_user deleteUser DeleteUser delete-user user.delete USER_DELETE userDelete
        acme_users_delete rm deleteuser acme__delete__user
    """),
)
def test_every_spelling_of_a_name_says_the_same(name):
    assert by_name(name) is DESTROYS


@pytest.mark.parametrize(
    "name",
    each("""
        get_user list_issues search_code issue_read pages_list read_write_lock_status
        API-post-search HTTPServerInfo get_delete_preview list_deleted_users get_last_update
        order_status run_list is_online whoami git_log get_subscription_cancel_reason query_logs
        convert_currency listS3Buckets getuser
    """),
)
def test_names_that_read(name):
    if name == "read_write_lock_status":  # a compound verb is the stricter one
        assert by_name(name) is EFFECT
    else:
        assert by_name(name) is READ


@pytest.mark.parametrize(
    "name",
    each("""
        create_issue send_mail sendMail fork_repository git_commit place_order book_flight
        merge_pull_request label_write get_or_create_user find_and_replace find_replace
        search_index_create schedule_health_check email_user update_status change_order_status
        slack_post_message log_event createuser publish_post
    """),
)
def test_names_that_write_once_more_with_every_call(name):
    assert by_name(name) is EFFECT


@pytest.mark.parametrize(
    "name",
    each("""
        set_theme enable_feature upsert_row star_repository mark_all_notifications_read
    """),
)
def test_names_that_set_a_state(name):
    assert by_name(name) is IDEMPOTENT


@pytest.mark.parametrize(
    "name",
    each("""
        frobnicate skopeo x 123 ___ 取得する получить gеt_user manage_users run_query execute_sql query
        postgres_query sync2 handle_dialog crear_usuario listen_port \x00\x1b[31m
    """),
)
def test_what_is_opaque_foreign_disguised_or_mixed_is_unknown(name):
    assert by_name(name) is UNKNOWN


def test_a_write_is_heard_in_any_company():
    assert by_name("удалить_delete") is DESTROYS
    assert by_name("delete_" + "x" * 5000) is DESTROYS
    assert by_name("get_" + "x" * 5000) is UNKNOWN


def test_a_servers_name_before_the_tools_is_no_part_of_it():
    assert by_name("mail_list", "mail") is READ
    assert by_name("notion_retrieve_block", "notion") is READ
    assert by_name("fetch", "fetch") is READ


def test_no_word_is_in_two_minds():
    """A word that reads may not write; a noun that may be a verb is one of the verbs."""
    reads = words.ASKS | words.LOOKS | words.FINDS
    writes = words.DESTROYS | words.SETS | words.ACTS
    assert not reads & writes and not reads & words.MIXED and not writes & words.MIXED - words.MIXED_NOUNS
    assert not words.DESTROYS & words.ACTS and not words.DESTROYS & words.SETS and not words.SETS & words.ACTS
    assert writes >= words.NOUNS_TOO | words.VERBS_RATHER and words.MIXED_NOUNS <= words.MIXED
    assert reads >= words.LAST_READS
