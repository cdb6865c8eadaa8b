"""The words that tool names are made of, by what they say of a call's effect on the world.

General English of interfaces, never names of single tools: a word belongs here when it means the same on any server.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DESTROYS = _words("""
    clean cleanup clear decommission del delete deprovision destroy discard drain drop empty erase evict expunge
    flush force kill liquidate nuke obliterate overwrite prune purge refund remove reset revert revoke rm rmdir rollback
    shred shutdown terminate trash truncate undeploy uninstall unlink unprovision unpublish vacate void wipe withdraw
""")
"""What was there is gone, or overwritten, afterwards."""

SETS = _words("""
    activate archive deactivate deny disable dismiss enable ensure favorite favourite follow hide lock mark mute pin
    put rename set star subscribe unarchive unassign unfollow unhide unlock unmute unpin unresolve unstar unsubscribe
    unwatch upsert
""")
"""A state is named: done twice it is as done once."""

ACTS = _words("""
    accept acknowledge add alter amend append apply approve assign attach authorise authorize backup ban bid blacklist
    block book borrow branch bridge broadcast buy cancel change charge checkin checkout cherrypick chmod chown click
    clone close comment commence commit complete configure confirm connect copy cordon cp create customise customize
    debit decline deduct delegate delist deploy deposit detach disconnect distribute donate downgrade downvote drag
    duplicate edit eject email emit enqueue enrol enroll escalate extend failover fill finalise finalize fix fork
    forward fulfil fulfill fund grant hibernate hire hover import increment decrement ingest init initialise initialize
    insert install invite isolate issue join kick label launch leave lend lift login logout mail merge message migrate
    mint mkdir modify mount move mutate mv navigate notify offboard onboard order park patch pause pay persist place
    populate post press promote provision publish pull purchase push quarantine rate react reassign rebase reboot
    rebuild recompute record recreate redeploy reenable register reindex reject release reload remediate remind renew
    rent reopen reorder replace replicate reply report reprioritise reprioritize request rerun rescan reschedule resend
    reserve resize restart restore resubmit resume retry review revise rotate save scale schedule scroll seed sell send
    share shelve sign signup snooze spend squash stage stake start stash stop store submit suspend swap swipe switch
    sync synchronise synchronize tag tap toggle touch transfer transition tweet type unban unblock uncordon undo unload
    unmount unset unstake untag update upgrade upload upvote vacuum vote whitelist write
""")
"""The world is another one afterwards, and once more with every call."""

NOUNS_TOO = _words("""
    backup block branch bridge charge checkout clone comment commit copy deposit duplicate fork fund issue label launch
    lock message merge order patch pin pull purchase push refund release report review rollback seed stage
    stake star stash store swap sync tag transfer transition trash void vote
""")
"""Verbs that names use as nouns at least as often (`issue_read`, `order_status`): their place decides."""

VERBS_RATHER = _words("""
    bid book email invite mail post rate record register rent reply request reserve schedule share sign snooze tweet
    type
""")
"""Nouns, too, but at the head of a name they act, unless its end says otherwise (`post_search`)."""

ACTS_AS_VERB = _words("draft log note")
"""Nouns before all; at the very beginning of a name, with nothing that says otherwise, they act."""

MIXED = _words("""
    ask automate batch build call compile control crawl dispatch drive emulate enrich eval evaluate exec execute
    generate handle interact invoke make manage operate optimise optimize orchestrate perform prepare process resolve
    run simulate spawn test train trigger use work
""")
"""They do whatever they are told: some of it reads, some writes."""

MIXED_NOUNS = _words("batch build call process run test trigger work")
"""Mixed verbs that are nouns as well: `run_list` reads, `run_query` does what it is told."""

ASKS = _words("""
    cat compare describe diff enumerate examine explain get inspect ls peek ping print retrieve show stat validate
    whoami
""")
"""They ask, even about doings: `get_delete_preview` reads."""

LOOKS = _words("""
    browse check count display dump head list monitor preview read tail trace view watch
""")
"""They look; they are nouns, too (`list_item_delete`, `schedule_health_check`)."""

FINDS = _words("""
    aggregate analyse analyze autocomplete calc calculate categorise categorize classify compute convert decode
    detect diagnose discover echo encode estimate extract fetch filter find forecast geocode glob grep identify
    infer interpret load locate lookup match measure parse poll predict query rank recall recommend render scan
    scrape search sleep suggest sum summarise summarize think tokenise tokenize transcribe translate vectorise
    vectorize visualise visualize wait
""")
"""They look for something, or reckon with what they are given."""

LAST_READS = _words("describe fetch find get list lookup read retrieve search show")
"""Behind a noun they are the verb: `pull_request_read`, `post_search`."""

HEADS = _words("""
    about analysis analytics availability breakdown capabilities changelog comparison details diagnostics docs
    documentation examples facts forecast graph guide guidelines health healthcheck help histogram history info
    information insights instructions leaderboard log logs manual metrics overview readme recommendations results
    screenshot similarity statistics stats status suggestions summary timeline tree trend trends usage weather
""")
"""Things to be read: a name that ends so, with no verb before, asks for one."""

SETTABLE_HEADS = _words("""
    address balance context count datetime definition detail metadata price profile quota quote reference schema size
    specification structure time version
""")
"""Things that are read, or set: they say that a name reads only where nothing but one noun stands before."""

QUESTIONS = _words("""
    am are available can current does has have how is latest recent supported what whats when where which who why
""")
"""A name that begins so asks."""

ENGINES = _words("""
    athena bigquery clickhouse cockroach cockroachdb cosmosdb couchbase cypher database databricks datalake db dbt
    dremio druid duckdb dynamodb exasol firebird graphql greenplum hana hive impala influx influxdb kusto mariadb
    mongo mongodb mssql mysql neo4j oracle pinot postgres postgresql presto redis redshift rds singlestore snowflake
    spanner spark sparql sql sqlite sqlserver starrocks supabase surrealdb sybase teradata tidb timescale trino vertica
""")
"""A query in their language may write."""

JOINS = _words("and or then")
