--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: sluice; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA sluice;


--
-- Name: adopt(bigint); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.adopt(above bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  upcoming bigint := greatest(sluice.hold(), above) + 1;
begin
  perform sluice.begin_version(upcoming);
  update sluice.state set lineage = sluice.draw(), lineage_version = upcoming, pruned_version = upcoming;
  return upcoming;
end
$$;


--
-- Name: begin_version(bigint); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.begin_version(upcoming bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  drawn text := sluice.draw();
begin
  update sluice.state set
    version = upcoming,
    mark = drawn,
    transaction = pg_current_xact_id(),
    transaction_at = transaction_timestamp();
  insert into sluice.versions (version, mark, at, by, why) values (
    upcoming,
    drawn,
    clock_timestamp(),
    coalesce(nullif(current_setting('sluice.by', true), ''), session_user),
    nullif(current_setting('sluice.why', true), '')
  );
  -- Delivered when the transaction commits. The version and no more: a payload has 8,000 bytes.
  perform pg_notify('sluice_version', upcoming::text);
  return upcoming;
end
$$;


--
-- Name: current_version(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.current_version() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  own bigint;
begin
  select version into own from sluice.state
    where transaction = pg_current_xact_id() and transaction_at = transaction_timestamp();
  if found then
    return own;
  end if;
  perform sluice.hold();
  return sluice.begin_version((select version + 1 from sluice.state));
end
$$;


--
-- Name: draw(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.draw() RETURNS text
    LANGUAGE sql
    AS $$
  select replace(gen_random_uuid()::text, '-', '')
$$;


--
-- Name: hold(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.hold() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  held bigint;
begin
  select version into strict held from sluice.state for update;
  return held;
end
$$;


--
-- Name: hold_first(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.hold_first() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform sluice.hold();
  return null;
end
$$;


--
-- Name: keep_changes(text, text[], json[], json[]); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.keep_changes(of_kind text, ids text[], befores json[], afters json[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  own bigint;
  added integer;
  gone bigint;
begin
  if coalesce(cardinality(ids), 0) = 0 then
    return;
  end if;
  own := sluice.current_version();
  with kept as (
    insert into sluice.changes (version, kind, id, before, after)
    select own, of_kind, id, before, after
    from unnest(ids, befores, afters) with ordinality as changed (id, before, after, place)
    order by place
    on conflict (version, kind, id) do update set after = excluded.after
    returning xmax = 0 as is_new
  )
  select count(*) filter (where is_new) into added from kept;
  update sluice.versions set change_count = change_count + added where version = own;

  delete from sluice.removed using unnest(ids, afters) as changed (id, after)
    where kind = of_kind and removed.id = changed.id and changed.after is not null;
  insert into sluice.removed (kind, id, version)
    select of_kind, id, own from unnest(ids, afters) as changed (id, after) where after is null
    on conflict (kind, id) do update set version = excluded.version;
  if not found then
    return;
  end if;
  -- Who has not read for so long reads everything.
  select version into gone from sluice.removed order by version desc offset 100000 limit 1;
  if found then
    delete from sluice.removed where version <= gone;
    update sluice.state set pruned_version = greatest(pruned_version, gone);
  end if;
end
$$;


--
-- Name: keep_deleted(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.keep_deleted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform sluice.keep_changes(
    tg_argv[0],
    array(select id from old_rows),
    array(select body from old_rows),
    array(select null::json from old_rows)
  );
  return null;
end
$$;


--
-- Name: keep_history(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.keep_history() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if tg_op = 'UPDATE' and old.version = new.version and exists (
    select from sluice.state
      where version = old.version
        and transaction = pg_current_xact_id() and transaction_at = transaction_timestamp()
  ) then
    return new;
  end if;
  raise exception '% of sluice.%: the history of the rule store is only added to', tg_op, tg_table_name;
end
$$;


--
-- Name: keep_inserted(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.keep_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform sluice.keep_changes(
    tg_argv[0],
    array(select id from new_rows),
    array(select null::json from new_rows),
    array(select body from new_rows)
  );
  return null;
end
$$;


--
-- Name: keep_updated(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.keep_updated() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform sluice.keep_changes(tg_argv[0], ids, befores, afters)
  from (
    select
      array_agg(coalesce(new_rows.id, old_rows.id)),
      array_agg(old_rows.body),
      array_agg(new_rows.body)
    from new_rows full join old_rows on new_rows.id = old_rows.id
  ) as all_rows (ids, befores, afters);
  return null;
end
$$;


--
-- Name: note_absent(text, text[]); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.note_absent(of_kind text, ids text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  own bigint := sluice.current_version();
  added integer;
begin
  insert into sluice.changes (version, kind, id)
    select own, of_kind, id from unnest(ids) as wanted (id)
    on conflict (version, kind, id) do nothing;
  get diagnostics added = row_count;
  update sluice.versions set change_count = change_count + added where version = own;
end
$$;


--
-- Name: number_record(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.number_record() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if tg_op = 'DELETE' then
    perform sluice.current_version();
    return old;
  end if;
  new.version := sluice.current_version();
  return new;
end
$$;


--
-- Name: refuse_truncate(); Type: FUNCTION; Schema: sluice; Owner: -
--

CREATE FUNCTION sluice.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  raise exception 'TRUNCATE of sluice.%: nobody would know what was removed; use DELETE', tg_table_name;
end
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: candidates; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.candidates (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT candidates_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: changes; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.changes (
    version bigint NOT NULL,
    place bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    rule text GENERATED ALWAYS AS (
CASE kind
    WHEN 'rule'::text THEN id
    WHEN 'candidate'::text THEN id
    WHEN 'override'::text THEN split_part(id, '/'::text, 1)
    ELSE NULL::text
END) STORED COLLATE pg_catalog."C",
    before json,
    after json
);


--
-- Name: changes_place_seq; Type: SEQUENCE; Schema: sluice; Owner: -
--

ALTER TABLE sluice.changes ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.changes_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: known_keys; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.known_keys (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    "user" text GENERATED ALWAYS AS ((body ->> 'user'::text)) STORED COLLATE pg_catalog."C",
    CONSTRAINT known_keys_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: migrations; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.migrations (
    number integer NOT NULL,
    file text NOT NULL,
    checksum text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: nodes; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.nodes (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT nodes_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: overrides; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.overrides (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT overrides_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: removed; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.removed (
    kind text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL
);


--
-- Name: rule_set; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.rule_set (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT rule_set_body_check CHECK ((json_typeof(body) = 'object'::text)),
    CONSTRAINT rule_set_id_check CHECK ((id = 'main'::text))
);


--
-- Name: rules; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.rules (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT rules_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: secrets; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.secrets (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT secrets_body_check CHECK ((json_typeof(body) = 'object'::text)),
    CONSTRAINT secrets_id_check CHECK ((id = 'main'::text))
);


--
-- Name: state; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.state (
    id boolean DEFAULT true NOT NULL,
    version bigint NOT NULL,
    mark text NOT NULL,
    lineage text NOT NULL,
    lineage_version bigint NOT NULL,
    pruned_version bigint DEFAULT 0 NOT NULL,
    transaction xid8 NOT NULL,
    transaction_at timestamp with time zone NOT NULL,
    CONSTRAINT state_id_check CHECK (id)
);


--
-- Name: tokens; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    body json NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    CONSTRAINT tokens_body_check CHECK ((json_typeof(body) = 'object'::text))
);


--
-- Name: versions; Type: TABLE; Schema: sluice; Owner: -
--

CREATE TABLE sluice.versions (
    version bigint NOT NULL,
    mark text NOT NULL,
    at timestamp with time zone NOT NULL,
    by text NOT NULL,
    why text,
    change_count integer DEFAULT 0 NOT NULL
);


--
-- Data for Name: candidates; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.candidates VALUES ('per-user', '{"limits":["80/minute"],"tiers":{"plan":{"pro":[]}}}', 8);


--
-- Data for Name: changes; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (1, 1, 'secret', 'main', DEFAULT, NULL, '{"secret" : "45c92d1a643259f1a8247bd30291f57bf9743be3717cbe17844df4ab17ae6aa1"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 2, 'set', 'main', DEFAULT, NULL, '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","given-up"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 3, 'rule', 'per-user', DEFAULT, NULL, '{"id":"per-user","by":["user"],"limits":["100/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 4, 'rule', 'exports', DEFAULT, NULL, '{"id":"exports","match":{"method":"POST","path":"/v1/exports"},"by":["user"],"limits":[{"algorithm":"fixed-window","max":5,"window":"30d","name":"monthly"}],"durable":true}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 5, 'rule', 'attempts', DEFAULT, NULL, '{"id":"attempts","match":{"method":"POST","path":"/v1/attempts"},"by":["user"],"limits":[{"algorithm":"fixed-window","start":"call","max":1,"window":"1h","block":{"first":"10d","factor":2,"max":"60d"}}],"durable":true}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 6, 'rule', 'logins', DEFAULT, NULL, '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":[{"algorithm":"sliding-window-log","max":5,"window":"5m"}],"posture":"closed"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 7, 'rule', 'given-up', DEFAULT, NULL, '{"id":"given-up","by":["user"],"limits":["1/second"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (2, 8, 'override', 'per-user/user=u1', DEFAULT, NULL, '{"caller":{"user":"u1"},"limits":["7/minute"],"until":"2999-01-01T00:00:00Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (3, 9, 'rule', 'per-user', DEFAULT, '{"id":"per-user","by":["user"],"limits":["100/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}', '{"id":"per-user","by":["user"],"limits":["90/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (4, 10, 'set', 'main', DEFAULT, '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","given-up"]}', '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","given-up","late"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (4, 11, 'rule', 'late', DEFAULT, NULL, '{"id":"late","by":[],"limits":["1000/hour"],"coordination":"split"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (5, 12, 'set', 'main', DEFAULT, '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","given-up","late"]}', '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","late"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (5, 13, 'rule', 'given-up', DEFAULT, '{"id":"given-up","by":["user"],"limits":["1/second"]}', NULL);
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (6, 15, 'override', 'per-user/user=u2', DEFAULT, NULL, '{"caller":{"user":"u2"},"limits":[]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (6, 16, 'override', 'per-user/user=%C3%BC%2F3%2C%20%3D%25', DEFAULT, NULL, '{"caller":{"user":"ü/3, =%"},"limits":[{"max":1,"window":"1h"}]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (6, 17, 'override', 'per-user/user=gone', DEFAULT, NULL, '{"caller":{"user":"gone"},"limits":["1/hour"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (7, 18, 'override', 'per-user/user=gone', DEFAULT, '{"caller":{"user":"gone"},"limits":["1/hour"]}', NULL);
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (8, 20, 'rule', 'per-user', DEFAULT, '{"id":"per-user","by":["user"],"limits":["90/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}', '{"id":"per-user","by":["user"],"limits":["90/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (8, 21, 'candidate', 'per-user', DEFAULT, NULL, '{"limits":["80/minute"],"tiers":{"plan":{"pro":[]}}}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (9, 22, 'rule', 'logins', DEFAULT, '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":[{"algorithm":"sliding-window-log","max":5,"window":"5m"}],"posture":"closed"}', '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":[{"algorithm":"sliding-window-log","max":5,"window":"5m"}],"posture":"closed"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (9, 23, 'candidate', 'logins', DEFAULT, NULL, '{"limits":["4/minute"]}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (10, 24, 'rule', 'logins', DEFAULT, '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":[{"algorithm":"sliding-window-log","max":5,"window":"5m"}],"posture":"closed"}', '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":["4/minute"],"posture":"closed"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (10, 25, 'candidate', 'logins', DEFAULT, '{"limits":["4/minute"]}', NULL);
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (11, 27, 'rule', 'late', DEFAULT, '{"id":"late","by":[],"limits":["1000/hour"],"coordination":"split"}', '{"id":"late","by":[],"limits":["999/hour"],"coordination":"split"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (12, 28, 'rule', 'late', DEFAULT, '{"id":"late","by":[],"limits":["999/hour"],"coordination":"split"}', '{"id":"late","by":[],"limits":["1000/hour"],"coordination":"split"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (13, 29, 'key', 'k_44b7d28986792f2c1f097a74', DEFAULT, NULL, '{"hash":"44b7d28986792f2c1f097a7423321905bc07eada5ec6c532a162898214b293c8","user":"u9","plan":"pro","name":"of the fixtures","state":"active","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (13, 30, 'key', 'k_28b79e288b8d27e7499ac28d', DEFAULT, NULL, '{"hash":"28b79e288b8d27e7499ac28d80bf632a8f37d6ef9807c3468907fde19c228935","user":"u8","state":"active","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (13, 31, 'key', 'k_e8f0248e697ccd87fee0689b', DEFAULT, NULL, '{"hash":"e8f0248e697ccd87fee0689b6ec20d2ed970f07624598223fdea84e4dad1da20","user":"u7","state":"active","createdAt":"2026-11-18T16:28:32.433Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (14, 32, 'key', 'k_28b79e288b8d27e7499ac28d', DEFAULT, '{"hash":"28b79e288b8d27e7499ac28d80bf632a8f37d6ef9807c3468907fde19c228935","user":"u8","state":"active","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}', '{"hash":"28b79e288b8d27e7499ac28d80bf632a8f37d6ef9807c3468907fde19c228935","user":"u8","state":"disabled","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (15, 33, 'token', 't_2442b620f02197f77f16', DEFAULT, NULL, '{"hash":"6ab847ab5b439159076d8c34ebbfa16ce8aa043b9aa7c9b62122d6271f0d6bdb","name":"a reader","role":"read","createdAt":"2026-11-18T16:28:32.532Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (16, 34, 'token', 't_14482852899ba5739681', DEFAULT, NULL, '{"hash":"01cde2727c2a470477b52462fdb8bcf8372e7e85845165fb4c9566b9e1627369","name":"a editer","role":"edit","createdAt":"2026-11-18T16:28:32.558Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (17, 35, 'token', 't_8827d27445e6f100abd9', DEFAULT, NULL, '{"hash":"6b539b5af621af8e53dbf874fe15841fef0d3570782db00aebe9fa9b830d90c1","name":"a adminer","role":"admin","createdAt":"2026-11-18T16:28:32.613Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (18, 36, 'token', 't_c1915c45c09f4de142f7', DEFAULT, NULL, '{"hash":"1bd29eb91da491d0bcfd9ea30ddf81b7584cda5b1abe297deda0bcfdb4ef5fcb","name":"gone","role":"read","createdAt":"2026-11-18T16:28:32.654Z"}');
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (19, 37, 'token', 't_c1915c45c09f4de142f7', DEFAULT, '{"hash":"1bd29eb91da491d0bcfd9ea30ddf81b7584cda5b1abe297deda0bcfdb4ef5fcb","name":"gone","role":"read","createdAt":"2026-11-18T16:28:32.654Z"}', NULL);
INSERT INTO sluice.changes OVERRIDING SYSTEM VALUE VALUES (20, 39, 'token', 't_db41c8a52beaef03a7c1', DEFAULT, NULL, '{"hash":"e9c308c85ad352fe3cb32172895a006a72eb284b80d97242a917049ae7ca6b5f","name":"ends","role":"read","expiresAt":"2999-01-01T00:00:00.000Z","createdAt":"2026-11-18T16:28:32.750Z"}');


--
-- Data for Name: known_keys; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.known_keys VALUES ('k_44b7d28986792f2c1f097a74', '{"hash":"44b7d28986792f2c1f097a7423321905bc07eada5ec6c532a162898214b293c8","user":"u9","plan":"pro","name":"of the fixtures","state":"active","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}', 13, DEFAULT);
INSERT INTO sluice.known_keys VALUES ('k_e8f0248e697ccd87fee0689b', '{"hash":"e8f0248e697ccd87fee0689b6ec20d2ed970f07624598223fdea84e4dad1da20","user":"u7","state":"active","createdAt":"2026-11-18T16:28:32.433Z"}', 13, DEFAULT);
INSERT INTO sluice.known_keys VALUES ('k_28b79e288b8d27e7499ac28d', '{"hash":"28b79e288b8d27e7499ac28d80bf632a8f37d6ef9807c3468907fde19c228935","user":"u8","state":"disabled","last4":"6789","createdAt":"2026-11-18T16:28:32.433Z"}', 14, DEFAULT);


--
-- Data for Name: migrations; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.migrations VALUES (1, '0001-rule-store.sql', '843ccd6702903121c0df151332f005557f5f32b16d28896540425cc7188aa345', '2026-11-18 16:28:31.314812+00');


--
-- Data for Name: overrides; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.overrides VALUES ('per-user/user=u1', '{"caller":{"user":"u1"},"limits":["7/minute"],"until":"2999-01-01T00:00:00Z"}', 2);
INSERT INTO sluice.overrides VALUES ('per-user/user=u2', '{"caller":{"user":"u2"},"limits":[]}', 6);
INSERT INTO sluice.overrides VALUES ('per-user/user=%C3%BC%2F3%2C%20%3D%25', '{"caller":{"user":"ü/3, =%"},"limits":[{"max":1,"window":"1h"}]}', 6);


--
-- Data for Name: removed; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.removed VALUES ('rule', 'given-up', 5);
INSERT INTO sluice.removed VALUES ('override', 'per-user/user=gone', 7);
INSERT INTO sluice.removed VALUES ('candidate', 'logins', 10);
INSERT INTO sluice.removed VALUES ('token', 't_c1915c45c09f4de142f7', 19);


--
-- Data for Name: rule_set; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.rule_set VALUES ('main', '{"routes":["POST /v1/exports","GET /v1/orders/:id","/*"],"strictPaths":false,"order":["per-user","exports","attempts","logins","late"]}', 5);


--
-- Data for Name: rules; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.rules VALUES ('exports', '{"id":"exports","match":{"method":"POST","path":"/v1/exports"},"by":["user"],"limits":[{"algorithm":"fixed-window","max":5,"window":"30d","name":"monthly"}],"durable":true}', 2);
INSERT INTO sluice.rules VALUES ('attempts', '{"id":"attempts","match":{"method":"POST","path":"/v1/attempts"},"by":["user"],"limits":[{"algorithm":"fixed-window","start":"call","max":1,"window":"1h","block":{"first":"10d","factor":2,"max":"60d"}}],"durable":true}', 2);
INSERT INTO sluice.rules VALUES ('per-user', '{"id":"per-user","by":["user"],"limits":["90/minute"],"tiers":{"plan":{"pro":[{"max":300,"window":"1m","burst":321,"wait":"200ms"}],"partner":[]}}}', 8);
INSERT INTO sluice.rules VALUES ('logins', '{"id":"logins","match":{"path":"/v1/login","where":{"user":null}},"by":["ip"],"mode":"shadow","limits":["4/minute"],"posture":"closed"}', 10);
INSERT INTO sluice.rules VALUES ('late', '{"id":"late","by":[],"limits":["1000/hour"],"coordination":"split"}', 12);


--
-- Data for Name: secrets; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.secrets VALUES ('main', '{"secret" : "45c92d1a643259f1a8247bd30291f57bf9743be3717cbe17844df4ab17ae6aa1"}', 1);


--
-- Data for Name: state; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.state VALUES (true, 20, '73de74e8368940f48a101fef752959df', '088ad49538ff49298d8ab9322d729659', 1, 0, '765', '2026-11-18 16:28:32.750688+00');


--
-- Data for Name: tokens; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.tokens VALUES ('t_2442b620f02197f77f16', '{"hash":"6ab847ab5b439159076d8c34ebbfa16ce8aa043b9aa7c9b62122d6271f0d6bdb","name":"a reader","role":"read","createdAt":"2026-11-18T16:28:32.532Z"}', 15);
INSERT INTO sluice.tokens VALUES ('t_14482852899ba5739681', '{"hash":"01cde2727c2a470477b52462fdb8bcf8372e7e85845165fb4c9566b9e1627369","name":"a editer","role":"edit","createdAt":"2026-11-18T16:28:32.558Z"}', 16);
INSERT INTO sluice.tokens VALUES ('t_8827d27445e6f100abd9', '{"hash":"6b539b5af621af8e53dbf874fe15841fef0d3570782db00aebe9fa9b830d90c1","name":"a adminer","role":"admin","createdAt":"2026-11-18T16:28:32.613Z"}', 17);
INSERT INTO sluice.tokens VALUES ('t_db41c8a52beaef03a7c1', '{"hash":"e9c308c85ad352fe3cb32172895a006a72eb284b80d97242a917049ae7ca6b5f","name":"ends","role":"read","expiresAt":"2999-01-01T00:00:00.000Z","createdAt":"2026-11-18T16:28:32.750Z"}', 20);


--
-- Data for Name: versions; Type: TABLE DATA; Schema: sluice; Owner: -
--

INSERT INTO sluice.versions VALUES (1, '12949a6a58c14e2384125e02cb4f329d', '2026-11-18 16:28:31.303548+00', 'sluice', 'the store was made', 1);
INSERT INTO sluice.versions VALUES (2, '57be625a848945db9072029c4db9ffde', '2026-11-18 16:28:32.061949+00', 'admin', 'the set "begins" — with ümlauts', 7);
INSERT INTO sluice.versions VALUES (3, 'fbdb402ef2674d37af2f652b3befbea7', '2026-11-18 16:28:32.11712+00', 'admin', 'less', 1);
INSERT INTO sluice.versions VALUES (4, '07281658acd046cf9bf4230e828904ef', '2026-11-18 16:28:32.137844+00', 'admin', NULL, 2);
INSERT INTO sluice.versions VALUES (5, 'ef1ed044123d4748916d6dfc605a85d3', '2026-11-18 16:28:32.153545+00', 'admin', NULL, 2);
INSERT INTO sluice.versions VALUES (6, '809cfa5a1d1240d9bf7d1ef56b900e44', '2026-11-18 16:28:32.176127+00', 'admin', NULL, 3);
INSERT INTO sluice.versions VALUES (7, '7955e8b5a5494fdd9a9c1d221c151001', '2026-11-18 16:28:32.193727+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (8, '078f641b991d437eb6379925ff1c6036', '2026-11-18 16:28:32.208667+00', 'admin', NULL, 2);
INSERT INTO sluice.versions VALUES (9, '796229c5bf16484289b633c39aaf7680', '2026-11-18 16:28:32.244051+00', 'admin', NULL, 2);
INSERT INTO sluice.versions VALUES (10, 'be89f923cb254ec99a6e1b90ff6b8c83', '2026-11-18 16:28:32.268436+00', 'admin', NULL, 2);
INSERT INTO sluice.versions VALUES (11, 'eeda1eebdf6144d6bdaa270304e497f8', '2026-11-18 16:28:32.332705+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (12, '0031109f5e9944c19d33aac21de8f744', '2026-11-18 16:28:32.416438+00', 'admin', 'not so', 1);
INSERT INTO sluice.versions VALUES (13, 'd778b0bcf02d4ce28d3d5907c20cca0b', '2026-11-18 16:28:32.444785+00', 'admin', NULL, 3);
INSERT INTO sluice.versions VALUES (14, '64f0df6c075a41c08af5531e6ea7e7cb', '2026-11-18 16:28:32.482222+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (15, 'a5bfe7512df340a887936eb552f60656', '2026-11-18 16:28:32.544954+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (16, '36f086696cc14c1cb3c40fbdf066db91', '2026-11-18 16:28:32.584814+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (17, '2a6e82fcab50459cad60e03d6ece91ba', '2026-11-18 16:28:32.619649+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (18, 'c5fe92277e514e1ab593b32a36868c69', '2026-11-18 16:28:32.662705+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (19, '949e6cf012ba40299c8ad127998cd100', '2026-11-18 16:28:32.692392+00', 'admin', NULL, 1);
INSERT INTO sluice.versions VALUES (20, '73de74e8368940f48a101fef752959df', '2026-11-18 16:28:32.764107+00', 'admin', NULL, 1);


--
-- Name: changes_place_seq; Type: SEQUENCE SET; Schema: sluice; Owner: -
--

SELECT pg_catalog.setval('sluice.changes_place_seq', 39, true);


--
-- Name: candidates candidates_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.candidates
    ADD CONSTRAINT candidates_pkey PRIMARY KEY (id);


--
-- Name: changes changes_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (version, kind, id);


--
-- Name: known_keys known_keys_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.known_keys
    ADD CONSTRAINT known_keys_pkey PRIMARY KEY (id);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);


--
-- Name: nodes nodes_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);


--
-- Name: overrides overrides_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.overrides
    ADD CONSTRAINT overrides_pkey PRIMARY KEY (id);


--
-- Name: removed removed_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.removed
    ADD CONSTRAINT removed_pkey PRIMARY KEY (kind, id);


--
-- Name: rule_set rule_set_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.rule_set
    ADD CONSTRAINT rule_set_pkey PRIMARY KEY (id);


--
-- Name: rules rules_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.rules
    ADD CONSTRAINT rules_pkey PRIMARY KEY (id);


--
-- Name: secrets secrets_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (id);


--
-- Name: state state_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (id);


--
-- Name: tokens tokens_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);


--
-- Name: versions versions_pkey; Type: CONSTRAINT; Schema: sluice; Owner: -
--

ALTER TABLE ONLY sluice.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (version);


--
-- Name: candidates_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX candidates_version ON sluice.candidates USING btree (version);


--
-- Name: changes_place; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX changes_place ON sluice.changes USING btree (version, place);


--
-- Name: changes_rule; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX changes_rule ON sluice.changes USING btree (rule, version) WHERE (rule IS NOT NULL);


--
-- Name: known_keys_user; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX known_keys_user ON sluice.known_keys USING btree ("user", id);


--
-- Name: known_keys_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX known_keys_version ON sluice.known_keys USING btree (version);


--
-- Name: overrides_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX overrides_version ON sluice.overrides USING btree (version);


--
-- Name: removed_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX removed_version ON sluice.removed USING btree (version);


--
-- Name: rule_set_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX rule_set_version ON sluice.rule_set USING btree (version);


--
-- Name: rules_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX rules_version ON sluice.rules USING btree (version);


--
-- Name: secrets_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX secrets_version ON sluice.secrets USING btree (version);


--
-- Name: tokens_version; Type: INDEX; Schema: sluice; Owner: -
--

CREATE INDEX tokens_version ON sluice.tokens USING btree (version);


--
-- Name: candidates a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.candidates FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: known_keys a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.known_keys FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: overrides a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.overrides FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: rule_set a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.rule_set FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: rules a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.rules FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: secrets a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.secrets FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: tokens a_hold; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER a_hold BEFORE INSERT OR DELETE OR UPDATE ON sluice.tokens FOR EACH STATEMENT EXECUTE FUNCTION sluice.hold_first();


--
-- Name: candidates b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.candidates FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: known_keys b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.known_keys FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: overrides b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.overrides FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: rule_set b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.rule_set FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: rules b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.rules FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: secrets b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.secrets FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: tokens b_number; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER b_number BEFORE INSERT OR DELETE OR UPDATE ON sluice.tokens FOR EACH ROW EXECUTE FUNCTION sluice.number_record();


--
-- Name: candidates c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.candidates REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('candidate');


--
-- Name: known_keys c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.known_keys REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('key');


--
-- Name: overrides c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.overrides REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('override');


--
-- Name: rule_set c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.rule_set REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('set');


--
-- Name: rules c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.rules REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('rule');


--
-- Name: secrets c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.secrets REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('secret');


--
-- Name: tokens c_deleted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_deleted AFTER DELETE ON sluice.tokens REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_deleted('token');


--
-- Name: candidates c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.candidates REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('candidate');


--
-- Name: known_keys c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.known_keys REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('key');


--
-- Name: overrides c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.overrides REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('override');


--
-- Name: rule_set c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.rule_set REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('set');


--
-- Name: rules c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.rules REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('rule');


--
-- Name: secrets c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.secrets REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('secret');


--
-- Name: tokens c_inserted; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_inserted AFTER INSERT ON sluice.tokens REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_inserted('token');


--
-- Name: candidates c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.candidates REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('candidate');


--
-- Name: known_keys c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.known_keys REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('key');


--
-- Name: overrides c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.overrides REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('override');


--
-- Name: rule_set c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.rule_set REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('set');


--
-- Name: rules c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.rules REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('rule');


--
-- Name: secrets c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.secrets REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('secret');


--
-- Name: tokens c_updated; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER c_updated AFTER UPDATE ON sluice.tokens REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION sluice.keep_updated('token');


--
-- Name: changes keep; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER keep BEFORE DELETE OR UPDATE ON sluice.changes FOR EACH ROW EXECUTE FUNCTION sluice.keep_history();


--
-- Name: versions keep; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER keep BEFORE DELETE OR UPDATE ON sluice.versions FOR EACH ROW EXECUTE FUNCTION sluice.keep_history();


--
-- Name: candidates no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.candidates FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: changes no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.changes FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: known_keys no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.known_keys FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: overrides no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.overrides FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: removed no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.removed FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: rule_set no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.rule_set FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: rules no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.rules FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: secrets no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.secrets FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: state no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.state FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: tokens no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.tokens FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- Name: versions no_truncate; Type: TRIGGER; Schema: sluice; Owner: -
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON sluice.versions FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_truncate();


--
-- PostgreSQL database dump complete
--


