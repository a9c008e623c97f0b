/** The behaviour that every proxy of the guide must have. */
import { afterAll, beforeAll } from 'vitest'
import { stopAll } from './process.test-helper.js'
import { describeLies } from './proxy-lies.test-helper.js'
import { describeLimits } from './proxy-limits.test-helper.js'
import { describeSilence } from './proxy-silence.test-helper.js'
import { describeSlowIssuer } from './proxy-slow-issuer.test-helper.js'
import { type StartProxy, startProxySetup, type ProxySetup } from './proxy-setup.test-helper.js'

const START_MS_MAX = 60_000

/** `file` is the one with the line that makes it fail closed. */
export function describeProxy(file: string, startProxy: StartProxy): () => ProxySetup {
  let started: ProxySetup
  beforeAll(async () => {
    started = await startProxySetup(startProxy)
  }, START_MS_MAX)
  afterAll(async () => {
    await stopAll()
    await started?.app.close()
  })
  const setup = () => started
  describeLimits(setup)
  describeLies(setup)
  describeSilence(setup, file)
  describeSlowIssuer(setup)
  return setup
}
