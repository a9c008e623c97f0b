import { createHmac } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { RELEASE } from '../../generated/release.js'
import type { Alert } from './alert.js'
import { type Receiver, startReceiver } from './webhook-receiver.test-helper.js'
import { Webhook, type WebhookOptions } from './webhook.js'

const ALERT: Alert = {
  id: 'caller-exhausted:a/h1',
  alert: 'caller-exhausted',
  severity: 'ticket',
  subject: 'a/h1',
  summary: 'Caller h1 of rule "a" has had nothing left for 5 minutes.',
  details: { rule: 'a', hash: 'h1', caller: ['user=ü1'] },
  since: '2026-01-01T00:00:00.000Z',
  resolvedAt: null,
  node: 'n1',
  runbook: 'docs/guides/runbook.md#caller-exhausted',
}

const OVER: Alert = { ...ALERT, resolvedAt: '2026-01-01T00:10:00.000Z' }

const open: AsyncDisposable[] = []

afterEach(async () => {
  for (const part of open.splice(0)) await part[Symbol.asyncDispose]()
})

async function setUp(given: Partial<WebhookOptions> = {}) {
  const receiver = await startReceiver()
  const { log, lines } = createMemoryLog()
  const time = { nowMs: 0 }
  const waits: number[] = []
  const webhook = new Webhook({
    url: receiver.url,
    secret: undefined,
    host: 'host-1',
    callers: 'hash',
    log,
    nowMs: () => time.nowMs,
    async wait(ms) {
      waits.push(ms)
      time.nowMs += ms
      await setImmediate()
    },
    ...given,
  })
  // The sender is closed first: a receiver waits for its connections.
  open.push({ [Symbol.asyncDispose]: () => webhook.close() }, receiver)
  return { receiver, webhook, lines, waits, time }
}

async function settled(webhook: Webhook, count: number): Promise<void> {
  const sum = () => Object.values(webhook.deliveries()).reduce((all, each) => all + each, 0)
  while (sum() < count) await setImmediate()
}

/** A promise that resolves when it is opened. */
function gate() {
  let resolveIt = () => {}
  const promise = new Promise<void>((resolve) => {
    resolveIt = resolve
  })
  return { promise, open: () => resolveIt() }
}

const statesOf = ({ received }: Receiver) =>
  received.map(({ body }) => `${body.state} ${body.alert.id}`)

test('an alert is posted as JSON when it begins and when it ends', async () => {
  const { receiver, webhook } = await setUp()
  webhook.notify(ALERT)
  webhook.notify(OVER)
  await settled(webhook, 2)
  const { caller, ...details } = ALERT.details
  expect(caller).toBeDefined()
  expect(receiver.received.map(({ body }) => body)).toEqual([
    {
      version: 1,
      event: 'alert',
      state: 'firing',
      alert: { ...ALERT, details },
      source: 'sluice',
      node: 'n1',
      host: 'host-1',
    },
    expect.objectContaining({ state: 'resolved', alert: { ...OVER, details } }),
  ])
  const [first, second] = receiver.received
  expect(first).toMatchObject({
    method: 'POST',
    url: '/hook/secret-path?token=secret-query',
    headers: { 'content-type': 'application/json', 'user-agent': `sluice/${RELEASE}` },
  })
  expect(first?.headers['x-sluice-signature']).toBeUndefined()
  expect(first?.headers['x-sluice-delivery']).toMatch(/^[0-9a-f-]{36}$/)
  expect(first?.headers['x-sluice-delivery']).not.toBe(second?.headers['x-sluice-delivery'])
  expect(webhook.deliveries()).toEqual({ delivered: 2, refused: 0, failed: 0, dropped: 0 })
})

test('with a secret each body is signed', async () => {
  const { receiver, webhook } = await setUp({ secret: 'a-secret-of-the-receiver' })
  webhook.notify(ALERT)
  await receiver.got(1)
  const [received] = receiver.received
  const hmac = createHmac('sha256', 'a-secret-of-the-receiver').update(received?.text ?? '')
  expect(received?.headers['x-sluice-signature']).toBe(`sha256=${hmac.digest('hex')}`)
})

test('a body names callers only if the configuration says so', async () => {
  const { receiver, webhook } = await setUp({ callers: 'clear' })
  webhook.notify(ALERT)
  await receiver.got(1)
  expect(receiver.received[0]?.body.alert.details).toEqual(ALERT.details)
})

test('a failing receiver is retried with the same body and id, in growing pauses', async () => {
  const { receiver, webhook, waits } = await setUp()
  const answers = [500, 503, 429, 502, 502, 200]
  receiver.answer = () => answers.shift()
  webhook.notify(ALERT)
  await settled(webhook, 1)
  expect(waits).toEqual([1000, 5000, 15_000, 60_000, 60_000])
  const unlike = (pick: (each: Receiver['received'][number]) => unknown) =>
    new Set(receiver.received.map(pick)).size
  expect(unlike(({ text }) => text)).toBe(1)
  expect(unlike(({ headers }) => headers['x-sluice-delivery'])).toBe(1)
  expect(webhook.deliveries()).toMatchObject({ delivered: 1, failed: 0 })
})

test('the beginning and end of an alert arrive in that order after an outage of the receiver', async () => {
  const { receiver, webhook } = await setUp()
  let failures = 3
  receiver.answer = () => (failures-- > 0 ? 500 : 200)
  webhook.notify(ALERT)
  webhook.notify(OVER)
  await settled(webhook, 2)
  const id = ALERT.id
  const firing = Array.from({ length: 4 }, () => `firing ${id}`)
  expect(statesOf(receiver)).toEqual([...firing, `resolved ${id}`])
})

test('an alert that cannot be delivered does not delay others', async () => {
  const stuck = gate()
  const { receiver, webhook } = await setUp({ wait: () => stuck.promise })
  receiver.answer = ({ body }) => (body.alert.id === ALERT.id ? 500 : 200)
  webhook.notify(ALERT)
  webhook.notify(OVER)
  for (let i = 0; i < 10; i++) webhook.notify({ ...ALERT, id: `degraded:r${i}` })
  await settled(webhook, 10)
  expect(webhook.deliveries()).toMatchObject({ delivered: 10, failed: 0 })
  stuck.open()
})

test('a response body without an end does not delay other deliveries', async () => {
  const { receiver, webhook } = await setUp({ timeoutMs: 500 })
  receiver.answer = (_received, response) => void response.writeHead(200).write('thank')
  for (let i = 0; i < 12; i++) webhook.notify({ ...ALERT, id: `caller-exhausted:a/h${i}` })
  await settled(webhook, 12)
  expect(webhook.deliveries()).toEqual({ delivered: 12, refused: 0, failed: 0, dropped: 0 })
})

test('a delivery is given up after ten minutes, and the end of the alert is still tried', async () => {
  const { receiver, webhook, waits, lines } = await setUp()
  receiver.answer = ({ body }) => (body.state === 'firing' ? 500 : 200)
  webhook.notify(ALERT)
  webhook.notify(OVER)
  await settled(webhook, 2)
  expect(webhook.deliveries()).toEqual({ delivered: 1, refused: 0, failed: 1, dropped: 0 })
  const waited = waits.reduce((all, ms) => all + ms, 0)
  expect(waited).toBeLessThanOrEqual(600_000)
  expect(waited).toBeGreaterThan(500_000)
  expect(lines.at(-1)).toMatchObject({ level: 'error', msg: 'webhook: delivery failed, giving up' })
})

test.each([400, 401, 404, 410, 301, 307])(
  'a response with status %i is not retried',
  async (status) => {
    const { receiver, webhook, waits, lines } = await setUp()
    receiver.answer = (_received, response) => {
      response.setHeader('location', receiver.url)
      return status
    }
    webhook.notify(ALERT)
    await settled(webhook, 1)
    expect(receiver.received).toHaveLength(1)
    expect(waits).toEqual([])
    expect(webhook.deliveries()).toMatchObject({ delivered: 0, refused: 1 })
    expect(lines).toMatchObject([
      {
        msg: 'webhook: delivery failed, giving up',
        problem: `found status ${status}; accepted: 200 to 299`,
      },
    ])
  },
)

test('an unreachable receiver is retried, and logged once a minute without secrets', async () => {
  const { receiver, webhook, lines, waits } = await setUp()
  await receiver[Symbol.asyncDispose]()
  webhook.notify(ALERT)
  await settled(webhook, 1)
  expect(waits.length).toBeGreaterThan(5)
  expect(webhook.deliveries()).toMatchObject({ failed: 1 })
  // Tries at 0, 1, 6, 21, 81, ... s.
  expect(lines.map(({ suppressed }) => suppressed).slice(0, 2)).toEqual([0, 3])
  expect(lines.length).toBeLessThanOrEqual(11)
  expect(lines[0]).toMatchObject({ webhook: new URL(receiver.url).origin })
  expect(JSON.stringify(lines)).not.toContain('secret')
})

test('at most 500 deliveries wait; others are dropped, counted and logged once', async () => {
  const stuck = gate()
  const { receiver, webhook, lines } = await setUp({ wait: () => stuck.promise })
  receiver.answer = () => 500
  for (let i = 0; i < 600; i++) webhook.notify({ ...ALERT, id: `degraded:r${i}` })
  expect(webhook.deliveries().dropped).toBe(100)
  const drops = lines.filter(({ msg }) => String(msg).startsWith('webhook: queue full'))
  expect(drops).toMatchObject([{ level: 'error', waiting: 500 }])
  receiver.answer = () => 200
  stuck.open()
  await settled(webhook, 600)
  expect(webhook.deliveries()).toEqual({ delivered: 500, refused: 0, failed: 0, dropped: 100 })
})

test('closing tries pending deliveries once more', async () => {
  const { receiver, webhook } = await setUp({
    wait: (_ms, signal) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  })
  receiver.answer = () => 500
  webhook.notify(ALERT)
  webhook.notify(OVER)
  await receiver.got(1)
  receiver.answer = () => 200
  await webhook.close()
  expect(statesOf(receiver)).toEqual([
    `firing ${ALERT.id}`,
    `firing ${ALERT.id}`,
    `resolved ${ALERT.id}`,
  ])
  webhook.notify(ALERT)
  await webhook.close()
  expect(receiver.received).toHaveLength(3)
})

test('closing does not wait for a silent receiver', async () => {
  const { receiver, webhook } = await setUp()
  receiver.answer = () => undefined
  webhook.notify(ALERT)
  await receiver.got(1)
  await webhook.close()
  expect(webhook.deliveries()).toMatchObject({ delivered: 0, failed: 1 })
})
