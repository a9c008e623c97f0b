import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http'
import { get as httpsGet } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { parseRules } from '../packages/core/src/index.js'
import { findService } from '../tools/services.mjs'
import { listensOn, makeFolder, stopAll, waitFor } from './process.test-helper.js'
import { waitForExit, run, start } from './serve.test-helper.js'

const SOON = { timeout: 20_000, interval: 100 }

let upstream: Server | undefined
afterEach(async () => {
  await stopAll()
  upstream?.closeAllConnections()
  upstream?.close()
  upstream = undefined
})

async function startUpstream(
  handler: (request: IncomingMessage) => Promise<void> | void,
): Promise<string> {
  const server = createServer(
    (request, response) => void Promise.resolve(handler(request)).then(() => response.end('ok')),
  )
  upstream = server
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const rulesOf = (max: number) => `rules: [{ id: all, by: [], limits: ["${max}/minute"] }]`

describe('sluice serve with nothing configured', () => {
  test('runs the example, prints its addresses and commands to try, and those commands work', async () => {
    const program = run(['serve'])
    await waitFor(program, () => program.output().includes('Ctrl-C'))
    const output = program.output()
    const gateway = /gateway +(\S+)/.exec(output)?.[1] ?? ''
    const line = /^ +(curl .*orders.*)$/m.exec(output)?.[1] ?? ''
    // The line runs exactly as printed; this message says what to install if it cannot run.
    findService('curl')
    const since = performance.now()
    const text = execFileSync('sh', ['-c', line], { encoding: 'utf8' })
    const tookMs = performance.now() - since
    const lines = text.split('\n').map((each) => each.trim())
    const count = (each: string) => lines.filter((found) => found === each).length
    const left = lines.flatMap((each) => /Remaining: (\d+)/.exec(each)?.slice(1).map(Number) ?? [])
    expect([lines[0], left[0]]).toEqual(['HTTP/1.1 200 OK', 9])
    // How many pass depends on how fast they are sent: ten, and one more every 100 ms.
    const passed = count('HTTP/1.1 200 OK')
    const refused = count('HTTP/1.1 429 Too Many Requests')
    expect(passed + refused).toBe(30)
    expect(passed).toBeGreaterThanOrEqual(10)
    expect(passed).toBeLessThanOrEqual(10 + Math.ceil(tookMs / 100))
    expect(count('Retry-After: 1')).toBe(refused)
    expect(left.filter((each) => each === 0).length).toBeGreaterThanOrEqual(refused)
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const again = await fetch(`${gateway}/v1/orders/7`, {
      headers: { 'x-api-key': 'demo-key-of-ann-free' },
    })
    expect(again.status).toBe(200)
  })

  test('stores an admin token that only its owner can read, and does not print it if stdout is a file', async () => {
    const { program, folder, api } = await start()
    const file = join(folder, '.sluice/admin-token')
    const token = readFileSync(file, 'utf8').trim()
    expect([statSync(file).mode & 0o777, token.length]).toEqual([0o600, 64])
    expect(program.output()).not.toContain(token)
    const reset = (authorization: string) =>
      fetch(`${api}/v1/reset`, {
        method: 'POST',
        headers: { authorization },
        body: '{"attributes":{"user":"ann"}}',
      })
    expect([(await reset(`Bearer ${token}`)).status, (await reset('Bearer wrong')).status]).toEqual(
      [200, 401],
    )
  })
})

describe('the sluice command', () => {
  test.each([
    ['--help', ['--help'], 0, /Usage: sluice/],
    ['serve --help', ['serve', '--help'], 0, /--config <file>/],
    ['--version', ['--version'], 0, /^\d+\.\d+\.\d+/],
    ['an unknown command', ['sreve'], 2, /unknown command 'sreve'/],
    ['an unknown option', ['serve', '--prot', '1'], 2, /unknown option '--prot'/],
    ['a configuration that is not there', ['serve', '-c', 'no.yaml'], 2, /no\.yaml.*no such file/],
  ])('prints the expected output for %s', async (_name, args, code, says) => {
    const { code: found, output } = await waitForExit(run(args))
    expect(output).toMatch(says)
    expect(found).toBe(code)
  })

  test('reports every problem of configuration and environment at once, and starts nothing', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'sluice.yaml'), 'gatway: {}\nworkers: 0\n')
    const { code, output } = await waitForExit(
      run(['serve'], { SLUICE_API_LISTEN: '0.0.0.0:8081' }, folder),
    )
    expect(code).toBe(2)
    expect(output).toMatch(
      /sluice\.yaml:1:1: gatway: unknown key "gatway"; did you mean "gateway"\?/,
    )
    expect(output).toMatch(/sluice\.yaml:2:10: workers:/)
    expect(output).toMatch(/SLUICE_API_LISTEN/)
  })

  test('reports every problem of the rules, and starts nothing', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'rules.yaml'), 'rules: [{ id: A, limits: [ten] }]')
    const { code, output } = await waitForExit(
      run(['serve'], { SLUICE_RULES: 'rules.yaml' }, folder),
    )
    expect(code).toBe(2)
    expect(output).toMatch(/rules\.yaml:1:15: .*bad id "A"/)
    expect(output).toMatch(/cannot read the limit "ten"/)
  })

  test('names the address of a port that is in use', async () => {
    const { gateway } = await start()
    const { code, output } = await waitForExit(
      run(['serve'], { SLUICE_GATEWAY_LISTEN: new URL(gateway).host }),
    )
    expect(code).toBe(1)
    expect(output).toContain('something else listens there')
  })

  test('serve --check reports whether everything is valid, and exits', async () => {
    expect(await waitForExit(run(['serve', '--check']))).toMatchObject({ code: 0 })
  })
})

describe('a rules file', () => {
  test('is read again when it changes; an invalid one replaces nothing and is reported', async () => {
    const folder = makeFolder()
    const file = join(folder, 'rules.yaml')
    writeFileSync(file, rulesOf(5))
    const { program, gateway, admin } = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
    const limit = async () => (await fetch(gateway)).headers.get('x-ratelimit-limit')
    const age = async () =>
      /^sluice_rules_age_seconds (\S+)$/m.exec(await (await fetch(`${admin}/metrics`)).text())?.[1]
    expect([await limit(), await age()]).toEqual(['5', '0'])
    writeFileSync(`${file}.new`, rulesOf(50))
    renameSync(`${file}.new`, file)
    await vi.waitFor(async () => expect(await limit()).toBe('50'), SOON)
    writeFileSync(file, 'rules: [{ id: 7')
    await waitFor(program, () => /rules invalid: active rules stay/.test(program.output()))
    expect(await limit()).toBe('50')
    expect(Number(await age())).toBeGreaterThan(0)
    writeFileSync(file, rulesOf(500))
    await vi.waitFor(async () => expect(await limit()).toBe('500'), SOON)
    expect(await age()).toBe('0')
  })
})

describe('SIGTERM', () => {
  test('under load drops no call: not ready immediately, last answers sent, then exited', async () => {
    const origin = await startUpstream(() => new Promise((resolve) => setTimeout(resolve, 100)))
    const folder = makeFolder()
    // Longer than a busy machine delays the balancer's health checks and its clients' disconnects.
    writeFileSync(join(folder, 'sluice.yaml'), 'rules: rules.yaml\nshutdown: { delay: 3s }')
    writeFileSync(join(folder, 'rules.yaml'), rulesOf(1_000_000))
    const { program, gateway, api } = await start({ SLUICE_UPSTREAM: origin }, folder)
    const isReady = async () => (await fetch(`${api}/readyz`)).status
    expect(await isReady()).toBe(200)
    const agent = new Agent({ keepAlive: true, maxSockets: 20 })
    const counts = { ok: 0, dropped: [] as string[] }
    let isOver = false
    const call = () =>
      new Promise<void>((resolve) => {
        const request = get(gateway, { agent }, (response) => {
          if (response.statusCode === 200) counts.ok++
          response.resume().on('end', resolve)
        })
        request.on('error', (error: NodeJS.ErrnoException) => {
          counts.dropped.push(String(error.code))
          resolve()
        })
      })
    const clients = Array.from({ length: 20 }, async () => {
      while (!isOver) await call()
    })
    await vi.waitFor(() => expect(counts.ok).toBeGreaterThan(50), SOON)
    program.signal('SIGTERM')
    // While it still accepts calls: a closed listener would answer nothing.
    await vi.waitFor(async () => expect(await isReady()).toBe(503), { ...SOON, interval: 10 })
    // A balancer notices a moment later, and sends calls until then.
    await new Promise((resolve) => setTimeout(resolve, 400))
    isOver = true
    await Promise.all(clients)
    const { code, output } = await waitForExit(program)
    agent.destroy()
    expect(counts.dropped).toEqual([])
    expect(code).toBe(0)
    // That it exits in time is a claim of shutdown.test.ts, on a clock that no load slows down.
    expect(output).toContain('"cut":0')
  })

  test('waits for a long call, but not forever', async () => {
    const arrived: string[] = []
    let release = () => {}
    const origin = await startUpstream((request) => {
      arrived.push(request.url ?? '')
      return new Promise((resolve) => {
        if (request.url === '/long') release = resolve
      })
    })
    const folder = makeFolder()
    writeFileSync(join(folder, 'sluice.yaml'), 'shutdown: { delay: 0ms, within: 6s }')
    const { program, gateway } = await start({ SLUICE_UPSTREAM: origin }, folder)
    const long = fetch(`${gateway}/long`).then(({ status }) => status)
    const endless = fetch(`${gateway}/endless`).then(
      ({ status }) => status,
      () => 'cut',
    )
    await waitFor(program, () => arrived.length === 2)
    program.signal('SIGTERM')
    // Readiness is false before the long call is answered.
    await waitFor(program, async () => !(await listensOn(Number(new URL(gateway).port))))
    release()
    expect([await long, await endless]).toEqual([200, 'cut'])
    expect(await waitForExit(program)).toMatchObject({
      code: 0,
      output: expect.stringContaining('"cut":1') as string,
    })
  })
})

describe('TLS', () => {
  test('is served on gateway and decision API, and a new certificate is loaded without a restart', async () => {
    const folder = makeFolder()
    const certify = (name: string) => {
      execFileSync(
        findService('openssl'),
        [
          'req',
          '-x509',
          '-newkey',
          'ec',
          '-pkeyopt',
          'ec_paramgen_curve:prime256v1',
          '-nodes',
          '-days',
          '2',
          '-subj',
          `/CN=${name}`,
          '-keyout',
          'new.key',
          '-out',
          'new.crt',
        ],
        { cwd: folder, stdio: 'ignore' },
      )
      renameSync(join(folder, 'new.key'), join(folder, 'tls.key'))
      renameSync(join(folder, 'new.crt'), join(folder, 'tls.crt'))
    }
    certify('first')
    const tls = '{ cert: tls.crt, key: tls.key }'
    writeFileSync(join(folder, 'sluice.yaml'), `gateway: { tls: ${tls} }\napi: { tls: ${tls} }`)
    const { gateway, api } = await start({}, folder)
    expect([gateway, api]).toEqual([
      expect.stringMatching(/^https:/),
      expect.stringMatching(/^https:/),
    ])
    const nameAt = (url: string) =>
      new Promise<unknown>((resolve, reject) => {
        httpsGet(url, { rejectUnauthorized: false, agent: false }, (response) => {
          const { subject } = (response.socket as TLSSocket).getPeerCertificate()
          response.resume().on('end', () => resolve([response.statusCode, subject.CN]))
        }).on('error', reject)
      })
    expect([await nameAt(gateway), await nameAt(`${api}/healthz`)]).toEqual([
      [200, 'first'],
      [200, 'first'],
    ])
    certify('second')
    for (const url of [gateway, `${api}/healthz`]) {
      await vi.waitFor(async () => expect(await nameAt(url)).toEqual([200, 'second']), SOON)
    }
  })
})

describe('serve --check', () => {
  test('beside a running server reads only the files, and writes nothing', async () => {
    const { gateway } = await start()
    const folder = makeFolder()
    const env = { SLUICE_GATEWAY_LISTEN: new URL(gateway).host }
    const { code, output } = await waitForExit(run(['serve', '--check'], env, folder))
    expect([code, output]).toEqual([0, 'Configuration and rules are valid.\n'])
    expect(readdirSync(folder)).toEqual([])
  })

  test('names the field of every file that is missing or invalid', async () => {
    const folder = makeFolder()
    writeFileSync(
      join(folder, 'sluice.yaml'),
      'rules: no.yaml\ngateway: { tls: { cert: a.pem, key: b.pem } }\n' +
        'identity: { jwt: { keys: [{ algorithm: RS256, file: c.pem }] } }',
    )
    const { code, output } = await waitForExit(run(['serve', '--check'], {}, folder))
    expect(code).toBe(2)
    expect(output).toMatch(/^rules: .*no\.yaml: there is no such file$/m)
    expect(output).toMatch(/^gateway\.tls: .*[ab]\.pem/m)
    expect(output).toMatch(/^identity\.jwt: .*c\.pem/m)
  })
})

test('an invalid secret in the data directory fails the start, and is not shown', async () => {
  const folder = makeFolder()
  mkdirSync(join(folder, '.sluice'))
  writeFileSync(join(folder, '.sluice/admin-token'), 'my own token')
  const { code, output } = await waitForExit(run(['serve'], {}, folder))
  expect(code).toBe(1)
  expect(output).toContain('admin-token: found 12 characters that are no secret of Sluice')
  expect(output).not.toContain('my own token')
})

test('a large rules file is loaded without delaying a single call', async () => {
  const folder = makeFolder()
  const file = join(folder, 'rules.yaml')
  writeFileSync(file, rulesOf(5))
  const { program, gateway, api } = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
  const rules = Array.from(
    { length: 5000 },
    (_, i) => `  - { id: r${i}, match: { path: /p${i} }, by: [ip], limits: [9/second] }`,
  )
  const text = ['rules:', ...rules].join('\n')
  const [began, usage] = [performance.now(), process.cpuUsage()]
  parseRules(text)
  const { user, system } = process.cpuUsage(usage)
  const parseMs = Math.min(performance.now() - began, (user + system) / 1000)
  const findPid = () => /"pid":(\d+)/.exec(program.output())?.[1]
  await waitFor(program, () => findPid() !== undefined)
  const pid = findPid() ?? ''
  let heldUpMs = 0
  let isTaken = false
  const probe = (async () => {
    while (!isTaken) {
      const before = workedMs(pid)
      await (await fetch(`${api}/healthz`)).text()
      heldUpMs = Math.max(heldUpMs, workedMs(pid) - before)
    }
  })()
  writeFileSync(file, text)
  // The time this takes depends on the machine and does not matter here.
  let limit: string | null = null
  while (limit !== '9') {
    limit = (await fetch(`${gateway}/p4999`)).headers.get('x-ratelimit-limit')
    await sleep(50)
  }
  isTaken = true
  await probe
  await waitFor(program, () => program.output().includes('"rules changed"'))
  // As long as parsing would take on the thread that decides calls.
  expect(heldUpMs).toBeGreaterThan(0)
  expect(heldUpMs).toBeLessThan(parseMs)
})

/**
 * CPU time of the thread that decides. While a call waits, this is what it waits for, apart from
 * the time in which the machine ran other processes.
 */
function workedMs(pid: string): number {
  const [ns] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')
  return Number(ns) / 1e6
}
