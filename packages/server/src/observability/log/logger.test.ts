import { expect, test } from 'vitest'
import { createMemoryLog } from './memory-log.test-helper.js'

const clock = { now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 678) }

test('a line is JSON with its level, the time, the fields and the message', () => {
  const { log, lines } = createMemoryLog('debug', clock)
  log.info({ file: 'rules.yaml', version: 2, missing: undefined }, 'rules changed')
  log.error({ tags: ['a', 'b'], caller: { user: 'u1' } }, 'failed')
  const time = '2026-01-02T03:04:05.678Z'
  expect(lines).toEqual([
    { level: 'info', time, pid: process.pid, file: 'rules.yaml', version: 2, msg: 'rules changed' },
    {
      level: 'error',
      time,
      pid: process.pid,
      tags: ['a', 'b'],
      caller: { user: 'u1' },
      msg: 'failed',
    },
  ])
})

test('lines below the level are left out', () => {
  const { log, lines } = createMemoryLog('warn')
  log.debug({}, 'd')
  log.info({}, 'i')
  log.warn({}, 'w')
  log.error({}, 'e')
  expect(lines.map(({ msg }) => msg)).toEqual(['w', 'e'])
})

test('a silent log writes nothing and drops nothing', () => {
  const { log, lines } = createMemoryLog('silent')
  log.error({}, 'e')
  expect(log.offer({}, 'o')).toBe(true)
  expect(lines).toEqual([])
  expect(log.dropped()).toBe(0)
})

test('a line end in a field makes no second line', () => {
  const { log, lines } = createMemoryLog()
  log.info({ path: '/a\n{"level":"error"}\r\u2028' }, 'x\ny')
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatchObject({ path: '/a\n{"level":"error"}\r\u2028', msg: 'x\ny' })
})

test('secret fields are redacted', () => {
  const { log, lines } = createMemoryLog()
  log.info(
    { authorization: 'Bearer abc', token: 'abc', key: 'abc', cookie: 'abc', password: 'abc' },
    'm',
  )
  expect(JSON.stringify(lines)).not.toContain('abc')
})

test('rejected lines are counted', () => {
  const memory = createMemoryLog()
  memory.log.info({}, 'one')
  memory.isStuck = true
  memory.log.info({}, 'two')
  memory.log.error({}, 'three')
  expect(memory.log.dropped()).toBe(2)
  memory.isStuck = false
  memory.log.info({}, 'four')
  expect(memory.lines.map(({ msg }) => msg)).toEqual(['one', 'four'])
})

test('a rejected line that was offered is counted by its writer, not by the log', () => {
  const memory = createMemoryLog()
  expect(memory.log.offer({}, 'one')).toBe(true)
  memory.isStuck = true
  expect(memory.log.offer({}, 'two')).toBe(false)
  expect(memory.log.dropped()).toBe(0)
})
