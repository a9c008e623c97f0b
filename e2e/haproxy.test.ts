/** docs/guides/proxies/haproxy.cfg and sluice.lua, run by HAProxy. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findService } from '../tools/services.mjs'
import { call, newCaller } from './http-call.test-helper.js'
import { type GuideOptions, writeGuideFile } from './guide-file.test-helper.js'
import {
  freePorts,
  listensOn,
  makeFolder,
  type Program,
  startProgram,
  waitFor,
} from './process.test-helper.js'
import { describeProxy } from './proxy-suite.test-helper.js'

function startHaproxy(options: GuideOptions): Program {
  const folder = makeFolder()
  writeGuideFile('haproxy.cfg', folder, options)
  writeGuideFile('sluice.lua', folder, options)
  return runHaproxy(folder)
}

/** -db: in the foreground, as one process. */
function runHaproxy(folder: string): Program {
  const args = ['-db', '-f', join(folder, 'haproxy.cfg')]
  return startProgram(findService('haproxy'), args, { cwd: folder })
}

const setup = describeProxy('haproxy.cfg', startHaproxy)

test('failing Lua is not treated as a Sluice that is down: no call passes', async () => {
  const { app } = setup()
  const folder = makeFolder()
  const ports = {
    ...(await freePorts('public', 'ask', 'sluice', 'admin')),
    app: app.port,
  }
  const options = { ports, failClosed: false, isPatient: false }
  writeGuideFile('haproxy.cfg', folder, options)
  writeGuideFile('sluice.lua', folder, options)
  const file = join(folder, 'sluice.lua')
  const broken = 'local function question(txn)\n  error("broken")'
  writeFileSync(file, readFileSync(file, 'utf8').replace('local function question(txn)', broken))
  const program = runHaproxy(folder)
  await waitFor(program, () => listensOn(ports.public))
  const from = newCaller()
  expect((await call(ports.public, '/shop/1', { from })).status).toBe(500)
  expect(app.requestsFrom(from)).toEqual([])
  await waitFor(program, () => program.output().includes('broken'))
})
