/** Failures of Postgres and of the network: the store detects them, recovers, and reports truly. */
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startPgBouncer } from '../../../../../../tools/postgres/pgbouncer.js'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { type FaultProxy, startFaultProxy } from '../../../../../../tools/redis/fault-proxy.js'
import { freePort } from '../../../../../../tools/ports.mjs'
import { commit, readAll, rule } from '../conformance-kit.test-helper.js'
import { DivergedError, type RuleStore, UnavailableError } from '../rule-store.js'
import { openStore, QUICK, QUICK_AND_PATIENT, START_MS_MAX } from './postgres.test-helper.js'

const WITHIN = { timeout: 15_000, interval: 20 }

let server: PostgresServer
let proxy: FaultProxy
let url: string
const opened: RuleStore[] = []

beforeAll(async () => {
  server = await startPostgres()
}, START_MS_MAX)
afterAll(() => server.stop())
beforeEach(async () => {
  url = await server.createDatabase()
  proxy = await startFaultProxy(server.port)
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
  await proxy.stop()
})

async function open(at = url): Promise<RuleStore> {
  const { store } = await openStore(at, { intervals: QUICK })
  opened.push(store)
  return store
}

const through = (target: { readonly port: number }) => {
  const other = new URL(url)
  other.port = String(target.port)
  return other.href
}

const isListening = (store: RuleStore) =>
  expect.poll(() => store.status(), WITHIN).toMatchObject({ isConnected: true, news: 'push' })

/** Listening connections: their last query is a heartbeat, or one before the first. */
const LISTENING = `from pg_stat_activity where datname = current_database()
  and application_name = 'sluice' and (query = 'select 1' or query like '%listen sluice%')`

function follow(store: RuleStore): { readonly news: () => number } {
  let news = 0
  store.onChange(() => {
    news += 1
  })
  return { news: () => news }
}

describe('the listener', () => {
  test('a listener that is killed with every change misses none', async () => {
    const [node, writer] = [await open(), await open()]
    await isListening(node)
    let position = (await readAll(node)).position
    const seen: number[] = []
    let reading = Promise.resolve()
    node.onChange(() => {
      reading = reading.then(async () => {
        const read = await readAll(node, position)
        position = read.position
        seen.push(position.version)
      })
    })
    for (let base = 1; base <= 10; base++) {
      await isListening(node)
      // The listener may not have reconnected since the last kill: then there is none to kill.
      const kill = async () =>
        Number(await server.psql(`select count(pg_terminate_backend(pid)) ${LISTENING}`, url))
      await Promise.all([
        commit(writer, [rule('a', base)], { base }),
        expect.poll(kill, WITHIN).toBeGreaterThan(0),
      ])
      await expect.poll(() => position.version, WITHIN).toBe(base + 1)
    }
    await reading
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    await isListening(node)
  })

  test('a connection that dies silently is replaced, and changes arrive meanwhile', async () => {
    const [node, writer] = [await open(), await open()]
    await Promise.all([isListening(node), isListening(writer)])
    let pids: readonly number[] = []
    const look = async () => {
      pids = (await server.psql(`select pid ${LISTENING}`, url)).split('\n').map(Number)
      return pids.length
    }
    // For a moment there may be more: one whose heartbeat was late, and the one in its place.
    await expect.poll(look, WITHIN).toBe(2)
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const { news } = follow(node)
    await commit(writer, [rule('a')], { base: 1 })
    await expect.poll(news, WITHIN).toBeGreaterThan(0)
    await expect
      .poll(
        () => server.psql(`select count(*) ${LISTENING} and pid not in (${pids.join()})`, url),
        {
          ...WITHIN,
          interval: 200,
        },
      )
      .toBe('2')
    for (const pid of pids) process.kill(pid, 'SIGCONT')
    await isListening(node)
  })

  test('a listener does not notify without changes', async () => {
    // A late heartbeat or poll on a busy machine would cause a notification.
    const { store: node } = await openStore(url, { intervals: QUICK_AND_PATIENT })
    opened.push(node)
    await isListening(node)
    await new Promise((resolve) => setTimeout(resolve, 300))
    const { news } = follow(node)
    await new Promise((resolve) => setTimeout(resolve, 800))
    expect(news()).toBe(0)
  })
})

describe('the network', () => {
  test('a network that drops everything is detected, and used again when it is back', async () => {
    const [node, writer] = [await open(through(proxy)), await open()]
    await isListening(node)
    proxy.blackhole()
    await expect
      .poll(() => node.status(), WITHIN)
      .toMatchObject({ isConnected: false, news: 'none', problem: expect.any(String) })
    await commit(writer, [rule('a')], { base: 1 })
    const { news } = follow(node)
    await proxy.heal()
    await isListening(node)
    await expect.poll(news, WITHIN).toBeGreaterThan(0)
    expect((await readAll(node)).position.version).toBe(2)
  })

  test('a reset connection fails the read in progress, and not the next one', async () => {
    const node = await open(through(proxy))
    await server.psql(
      "insert into sluice.tokens (id, body) select 't' || n, '{}' from generate_series(1, 5000) n",
      url,
    )
    const reading = (async () => {
      for await (const { records } of node.read(undefined)) {
        if (records.length > 0) proxy.cut()
      }
    })()
    await expect(reading).rejects.toThrow(UnavailableError)
    await expect.poll(async () => (await readAll(node)).records.length, WITHIN).toBe(5001)
  })
})

describe('Postgres', () => {
  test('requests fail while Postgres is down, and succeed when it is back', async () => {
    const node = await open()
    await commit(node, [rule('a')], { base: 1 })
    await server.kill()
    await expect(readAll(node)).rejects.toThrow(UnavailableError)
    await expect(commit(node, [rule('a')], { base: 2 })).rejects.toMatchObject({
      name: 'UnavailableError',
      isUncertain: false,
    })
    await expect.poll(() => node.status().news, WITHIN).toBe('none')
    await server.start()
    await isListening(node)
    expect((await readAll(node)).position.version).toBe(2)
  })

  test('a start without Postgres does not wait, and uses it when it is available', async () => {
    const port = await freePort()
    const { store, lines } = await openStore(`postgres://me:hunter2hunter2@127.0.0.1:${port}/a`, {
      intervals: QUICK,
    })
    expect(store.status()).toMatchObject({ isConnected: false, news: 'none' })
    await expect(readAll(store)).rejects.toThrow(`127.0.0.1:${port}/a: connect ECONNREFUSED`)
    await store.close()
    const said = JSON.stringify([store.name, store.status(), lines])
    expect(said).not.toContain('hunter2')
    expect(store.name).toBe(`postgres 127.0.0.1:${port}/a`)
    proxy.refuse()
    const node = await open(through(proxy))
    await expect(commit(node, [rule('a')], { base: 1 })).rejects.toThrow(UnavailableError)
    await proxy.heal()
    await isListening(node)
    expect((await commit(node, [rule('a')], { base: 1 })).version).toBe(2)
  })

  test('a database that was created again is another store', async () => {
    const node = await open()
    const position = await commit(node, [rule('a')], { base: 1 })
    await server.psql('drop schema sluice cascade', url)
    await expect.poll(async () => (await readAll(node)).position.version, WITHIN).toBe(1)
    await expect(readAll(node, position)).rejects.toThrow(DivergedError)
  })

  test('a restored database is reported as diverged, also once it has as many versions again', async () => {
    const node = await open()
    await commit(node, [rule('a')], { base: 1 })
    const backup = join(server.socketFolder, 'backup')
    await server.run('pg_dump', '-Fc', '-n', 'sluice', '-f', backup, url)
    const second = (await readAll(node)).position
    const fourth = await commit(node, [rule('b')], { base: 2 }).then(() =>
      commit(node, [rule('c')], { base: 3 }),
    )
    await server.run('pg_restore', '--clean', '--single-transaction', '-d', url, backup)
    const refused = readAll(node, fourth)
    await expect(refused).rejects.toThrow('the rule store went back to version 2 from 4')
    await expect(refused).rejects.toMatchObject({ name: 'DivergedError', store: second })
    expect((await readAll(node, second)).records).toEqual([])
    await commit(node, [rule('d')], { base: 2 })
    await commit(node, [rule('e')], { base: 3 })
    await expect(readAll(node, fourth)).rejects.toThrow('has another version 4 than the one')
    const adopted = await node.adopt(4, 'ada', 'the backup is right')
    const whole = await readAll(node, fourth)
    expect([whole.isWhole, whole.position]).toEqual([true, adopted])
  })
})

describe('a commit whose reply is lost', () => {
  /** For as long as there is a row in it. */
  const whileClosed = `while exists (select from gate) loop perform pg_sleep(0.02); end loop`
  const closeGate = () => server.psql('create table gate (); insert into gate default values', url)
  const openGate = () => server.psql('delete from gate', url)

  /** Runs when the transaction commits, after the node has sent the last of it. */
  const atCommit = (what: string) =>
    server.psql(
      `create function wait() returns trigger language plpgsql as
         $$ begin ${what}; return null; end $$;
       create constraint trigger wait after insert on sluice.rules
         deferrable initially deferred for each row execute function wait()`,
      url,
    )
  const isCommitting = () =>
    expect
      .poll(
        () =>
          server.psql(
            `select count(*) from pg_stat_activity where query = 'commit' and state = 'active'`,
            url,
          ),
        {
          ...WITHIN,
          interval: 50,
        },
      )
      .toBe('1')

  test('a commit whose reply is lost succeeds if it was made', async () => {
    const node = await open(through(proxy))
    await closeGate()
    await atCommit(whileClosed)
    const made = commit(node, [rule('a')], { base: 1 })
    await isCommitting()
    proxy.cut()
    await openGate()
    const position = await made
    expect(position.version).toBe(2)
    expect((await readAll(node)).position).toEqual(position)
  })

  test('a commit whose reply is lost fails if it was not made', async () => {
    const node = await open()
    await atCommit('perform pg_terminate_backend(pg_backend_pid())')
    await expect(commit(node, [rule('a')], { base: 1 })).rejects.toMatchObject({
      name: 'UnavailableError',
      isUncertain: false,
    })
    expect((await readAll(node)).position.version).toBe(1)
  })

  test('a commit whose reply is lost is uncertain if Postgres does not answer', async () => {
    const node = await open(through(proxy))
    await closeGate()
    await atCommit(whileClosed)
    const made = expect(commit(node, [rule('a')], { base: 1 })).rejects.toMatchObject({
      name: 'UnavailableError',
      isUncertain: true,
    })
    await isCommitting()
    proxy.refuse()
    proxy.cut()
    await openGate()
    await made
  })
})

test('the store polls behind a pooler that drops LISTEN, and logs it', async () => {
  const bouncer = await startPgBouncer(server)
  // A probe that does not arrive is not repeated at once: that would be a notification too.
  const intervals = { ...QUICK_AND_PATIENT, probeAgainLeastMs: 60_000 }
  const { store, lines } = await openStore(bouncer.urlOf(url), { intervals })
  opened.push(store)
  const writer = await open()
  const swallowed = () =>
    lines.filter(({ msg }) => String(msg).includes('LISTEN does not work through this pooler'))
  await expect.poll(() => swallowed().length, WITHIN).toBe(1)
  expect(swallowed()[0]).toMatchObject({ level: 'warn', store: store.name })
  expect(store.status()).toEqual({ isConnected: true, news: 'poll', problem: undefined })
  const { news } = follow(store)
  await commit(writer, [rule('a')], { base: 1 })
  await expect.poll(news, WITHIN).toBe(1)
  await commit(store, [rule('b')], { base: 2 })
  expect((await readAll(store)).position.version).toBe(3)
  await store.close()
  const session = await startPgBouncer(server, 'session')
  await isListening(await open(session.urlOf(url)))
  await Promise.all(opened.splice(0).map((each) => each.close()))
  await Promise.all([bouncer.stop(), session.stop()])
})
