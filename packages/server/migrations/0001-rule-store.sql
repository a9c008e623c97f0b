-- The rule store. Never edited once released: changes are new files.
--
-- Every change of a record, whoever makes it, is part of a version: one for each transaction, in
-- the order in which they commit. Triggers see to that, so what a person changes here by hand is
-- numbered, kept in the history and told to all nodes like any other change:
--
--   begin;
--   select set_config('sluice.by', 'ann', true), set_config('sluice.why', 'incident 12', true);
--   update sluice.rules set body = jsonb_set(body::jsonb, '{mode}', '"shadow"') where id = 'login';
--   commit;
--
-- A role that does not own the schema needs: usage on schema sluice; select on all tables; insert,
-- update, delete on rule_set, rules, candidates, overrides, known_keys, tokens, secrets, nodes.

-- Where the store stands: one row. Whoever changes a record holds it until the transaction ends,
-- so versions become visible in their order.
create table sluice.state (
  id boolean primary key default true check (id),
  version bigint not null,
  -- Drawn for every version: a store that was put back has others at the same numbers.
  mark text not null,
  -- Drawn for every history, which begins with version lineage_version.
  lineage text not null,
  lineage_version bigint not null,
  -- Tombstones up to this version may be gone.
  pruned_version bigint not null default 0,
  -- The transaction that made the version. Both: a number may come again in another cluster.
  transaction xid8 not null,
  transaction_at timestamptz not null
);

create table sluice.versions (
  version bigint primary key,
  mark text not null,
  at timestamptz not null,
  by text not null,
  why text,
  change_count integer not null default 0
);

-- A record is in a version once, with what it was before the version and after it.
create table sluice.changes (
  version bigint not null,
  place bigint generated always as identity,
  kind text collate "C" not null,
  id text collate "C" not null,
  -- The rule it belongs to.
  rule text collate "C" generated always as (
    case kind
      when 'rule' then id
      when 'candidate' then id
      when 'override' then split_part(id, '/', 1)
    end
  ) stored,
  before json,
  after json,
  primary key (version, kind, id)
);
create index changes_place on sluice.changes (version, place);
create index changes_rule on sluice.changes (rule, version) where rule is not null;

-- What was removed and has not come back.
create table sluice.removed (
  kind text collate "C" not null,
  id text collate "C" not null,
  version bigint not null,
  primary key (kind, id)
);
create index removed_version on sluice.removed (version);

-- Bodies are json, not jsonb: what a person wrote keeps the order of its fields.
create table sluice.rule_set (
  id text collate "C" primary key check (id = 'main'),
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);
create table sluice.rules (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);
create table sluice.candidates (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);
create table sluice.overrides (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);
create table sluice.known_keys (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0,
  "user" text collate "C" generated always as (body ->> 'user') stored
);
create index known_keys_user on sluice.known_keys ("user", id);
create table sluice.tokens (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);
create table sluice.secrets (
  id text collate "C" primary key check (id = 'main'),
  body json not null check (json_typeof(body) = 'object'),
  version bigint not null default 0
);

-- Who runs which version. Not part of any version.
create table sluice.nodes (
  id text collate "C" primary key,
  body json not null check (json_typeof(body) = 'object'),
  seen_at timestamptz not null
);

create function sluice.draw() returns text language sql volatile as $$
  select replace(gen_random_uuid()::text, '-', '')
$$;

-- Waits until no other transaction changes anything; the version is then the newest, and stays.
create function sluice.hold() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  held bigint;
begin
  select version into strict held from sluice.state for update;
  return held;
end
$$;

-- The version of this transaction, begun if it has none yet.
create function sluice.current_version() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

create function sluice.begin_version(upcoming bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
-- Nobody else may choose the number of a version.
revoke all on function sluice.begin_version(bigint) from public;

-- A new history, above every version that anybody may have seen. Nodes read it whole.
create function sluice.adopt(above bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  upcoming bigint := greatest(sluice.hold(), above) + 1;
begin
  perform sluice.begin_version(upcoming);
  update sluice.state set lineage = sluice.draw(), lineage_version = upcoming, pruned_version = upcoming;
  return upcoming;
end
$$;

-- Before a statement locks any row: whoever holds a row must not wait for the state.
create function sluice.hold_first() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform sluice.hold();
  return null;
end
$$;

create function sluice.number_record() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform sluice.current_version();
    return old;
  end if;
  new.version := sluice.current_version();
  return new;
end
$$;

-- After a statement: history and tombstones of all its rows. The argument is the kind of record.
create function sluice.keep_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

create function sluice.keep_updated() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

create function sluice.keep_deleted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

create function sluice.keep_changes(
  of_kind text, ids text[], befores json[], afters json[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
revoke all on function sluice.keep_changes(text, text[], json[], json[]) from public;

-- Records that somebody wanted removed and that were not there: changes all the same.
create function sluice.note_absent(of_kind text, ids text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

-- History only grows. What the running transaction has written it may still complete.
create function sluice.keep_history() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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

create function sluice.refuse_truncate() returns trigger language plpgsql as $$
begin
  raise exception 'TRUNCATE of sluice.%: nobody would know what was removed; use DELETE', tg_table_name;
end
$$;

insert into sluice.state
    (version, mark, lineage, lineage_version, transaction, transaction_at)
  values (0, '', sluice.draw(), 1, '0', 'epoch');

do $$
declare
  tables constant text[] := array[
    'rule_set', 'rules', 'candidates', 'overrides', 'known_keys', 'tokens', 'secrets'
  ];
  kinds constant text[] := array['set', 'rule', 'candidate', 'override', 'key', 'token', 'secret'];
begin
  for n in 1 .. cardinality(tables) loop
    execute format('create index %I on sluice.%I (version)', tables[n] || '_version', tables[n]);
    execute format(
      'create trigger a_hold before insert or update or delete on sluice.%I
        for each statement execute function sluice.hold_first()', tables[n]);
    execute format(
      'create trigger b_number before insert or update or delete on sluice.%I
        for each row execute function sluice.number_record()', tables[n]);
    execute format(
      'create trigger c_inserted after insert on sluice.%I referencing new table as new_rows
        for each statement execute function sluice.keep_inserted(%L)', tables[n], kinds[n]);
    execute format(
      'create trigger c_updated after update on sluice.%I
        referencing old table as old_rows new table as new_rows
        for each statement execute function sluice.keep_updated(%L)', tables[n], kinds[n]);
    execute format(
      'create trigger c_deleted after delete on sluice.%I referencing old table as old_rows
        for each statement execute function sluice.keep_deleted(%L)', tables[n], kinds[n]);
    execute format(
      'create trigger no_truncate before truncate on sluice.%I
        for each statement execute function sluice.refuse_truncate()', tables[n]);
  end loop;
end
$$;

create trigger keep before update or delete on sluice.versions
  for each row execute function sluice.keep_history();
create trigger keep before update or delete on sluice.changes
  for each row execute function sluice.keep_history();
create trigger no_truncate before truncate on sluice.versions
  for each statement execute function sluice.refuse_truncate();
create trigger no_truncate before truncate on sluice.changes
  for each statement execute function sluice.refuse_truncate();
create trigger no_truncate before truncate on sluice.removed
  for each statement execute function sluice.refuse_truncate();
create trigger no_truncate before truncate on sluice.state
  for each statement execute function sluice.refuse_truncate();

-- Version 1: the secret that hashes of keys depend on.
select set_config('sluice.by', 'sluice', true), set_config('sluice.why', 'the store was made', true);
insert into sluice.secrets (id, body) values ('main', json_build_object(
  'secret', encode(sha256((sluice.draw() || sluice.draw())::bytea), 'hex')
));
