/** Mistakes that are noticed from outside a middleware: in a real server, in a real worker. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { sluice } from './node.js'
import { findWorkers } from './workers.js'

const RULES = [{ id: 'per-ip', by: ['ip'], limits: ['2/hour'] }]

test('a middleware that is created in a handler is noticed, once', async () => {
  const logged: string[] = []
  const log = (message: string) => void logged.push(message)
  const server = createServer((request, response) => {
    const limited = sluice({ rules: RULES, logger: { warn: log, error: log } })
    limited((_, answer) => answer.end('hello'))(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  for (let call = 0; call < 3; call++) await fetch(`http://127.0.0.1:${port}/`)
  server.closeAllConnections()
  server.close()
  expect(logged).toHaveLength(1)
  expect(logged[0]).toContain('[created-in-handler, ')
})

test('a worker of node:cluster is noticed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-workers-'))
  const file = join(folder, 'workers.mjs')
  const built = new URL('../../dist/middleware/node.js', import.meta.url)
  writeFileSync(
    file,
    `
      import cluster from 'node:cluster'
      import { sluice } from '${built.href}'
      if (cluster.isPrimary) cluster.fork()
      else {
        await sluice({ rules: [{ id: 'all', by: [], limits: ['2/hour'] }] }).close()
        cluster.worker.disconnect()
      }
    `,
  )
  const { stderr } = await promisify(execFile)(process.execPath, [file])
  rmSync(folder, { recursive: true })
  expect(stderr).toContain('(worker 1 of node:cluster) [memory-workers, ')
})

test.each([
  ['0', undefined],
  ['2', 'instance 2 of PM2'],
])('an instance of PM2 with the number %s is %s', (instance, expected) => {
  const before = process.env['NODE_APP_INSTANCE']
  process.env['NODE_APP_INSTANCE'] = instance
  try {
    expect(findWorkers()).toBe(expected)
  } finally {
    if (before === undefined) delete process.env['NODE_APP_INSTANCE']
    else process.env['NODE_APP_INSTANCE'] = before
  }
})
