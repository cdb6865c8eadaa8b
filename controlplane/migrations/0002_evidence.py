"""The partitioned tables: observations by day of receipt, audit by month, both append-only."""

from django.db import migrations

from controlplane.migrations._bounded import bounded

OBSERVATION = """
CREATE SEQUENCE observation_id_seq AS bigint;
CREATE TABLE observation (
    id bigint NOT NULL DEFAULT nextval('observation_id_seq'),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    environment_id bigint NOT NULL,
    key_id bigint NOT NULL,
    agent_id bigint NOT NULL,
    worker_id bigint NOT NULL,
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    dependency_id bigint NOT NULL,
    tool_id bigint NOT NULL,
    generation bigint NOT NULL,
    operation text NOT NULL DEFAULT '',
    at timestamptz NOT NULL,
    span_s double precision NOT NULL,
    ok integer NOT NULL,
    empty integer NOT NULL,
    retryable_error integer NOT NULL,
    timeout integer NOT NULL,
    rate_limited integer NOT NULL,
    semantic_error integer NOT NULL,
    unknown_tool integer NOT NULL,
    cancelled integer NOT NULL,
    rejected integer NOT NULL,
    attempts integer NOT NULL,
    slow integer NOT NULL,
    slow_failures integer NOT NULL,
    latency_sum_ms double precision NOT NULL,
    latency_max_ms double precision NOT NULL,
    latency_hist integer[] NOT NULL,
    streak integer NOT NULL,
    retry_after_s double precision,
    counted boolean NOT NULL,
    samples jsonb NOT NULL DEFAULT '[]'
) PARTITION BY RANGE (received_at);
ALTER SEQUENCE observation_id_seq OWNED BY observation.id;
CREATE INDEX observation_window ON observation (dependency_id, received_at);
CREATE INDEX observation_session ON observation (session_id, seq);
CREATE TABLE observation_default PARTITION OF observation DEFAULT;
"""

AUDIT = """
CREATE SEQUENCE audit_entry_id_seq AS bigint;
CREATE TABLE audit_entry (
    id bigint NOT NULL DEFAULT nextval('audit_entry_id_seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    environment_id bigint,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    accepted boolean NOT NULL,
    reason text NOT NULL DEFAULT '',
    detail jsonb NOT NULL DEFAULT '{}',
    previous_hash text NOT NULL,
    hash text NOT NULL
) PARTITION BY RANGE (at);
ALTER SEQUENCE audit_entry_id_seq OWNED BY audit_entry.id;
CREATE INDEX audit_entry_recent ON audit_entry (environment_id, id DESC);
CREATE INDEX audit_entry_id ON audit_entry (id DESC);
CREATE TABLE audit_entry_default PARTITION OF audit_entry DEFAULT;
CREATE FUNCTION audit_entry_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_entry is append-only: % refused', TG_OP;
END $$;
CREATE TRIGGER audit_entry_append_only BEFORE UPDATE OR DELETE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION audit_entry_is_append_only();
CREATE TRIGGER audit_entry_no_truncate BEFORE TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_is_append_only();
"""


class Migration(migrations.Migration):
    """Tables that Django's own schema editor cannot write; the unmanaged models name their columns."""

    dependencies = [("controlplane", "0001_bones")]

    operations = bounded(
        migrations.RunSQL(OBSERVATION, "DROP TABLE observation; DROP SEQUENCE IF EXISTS observation_id_seq"),
        migrations.RunSQL(
            AUDIT,
            "DROP TABLE audit_entry; DROP FUNCTION audit_entry_is_append_only(); "
            "DROP SEQUENCE IF EXISTS audit_entry_id_seq",
        ),
    )
