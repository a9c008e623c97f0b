/**
 * Everything around a proxy: the application, Sluice, and three proxies: fail open, fail closed,
 * and one with long timeouts.
 */
import { type App, startApp } from './upstream-app.test-helper.js'
import type { GuideOptions, Ports } from './guide-file.test-helper.js'
import { freePorts, listensOn, type Program, waitFor } from './process.test-helper.js'
import { type Sluice, type SluiceOptions, startSluice } from './sluice.test-helper.js'

/** Starts one proxy with the files of the guide. */
export type StartProxy = (options: GuideOptions) => Program

export const KEY = 'sk_test_0123456789abcdef'

/** Configured in Sluice by a file, as users do it. */
export const CONFIG = `
identity:
  keys:
    - { key: ${KEY}, user: acme, plan: pro }
gateway:
  requireUser: [/private/*]
`

/** Sliding logs, because they are exact; an hour, because no test lasts as long. */
const RULES = `
rules:
  - id: shop
    match: { path: /shop/* }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 100, window: 1h }]
  - id: few
    match: { path: /few }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 2, window: 1h }]
  - id: login
    match: { path: /login }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 1, window: 1h }]
  - id: orders
    match: { method: POST, path: /orders }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 1, window: 1h }]
  - id: brief
    match: { path: /brief }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 1, window: 1s }]
  - id: keyed
    match: { path: /keyed }
    by: [user]
    limits: [{ algorithm: sliding-window-log, max: 3, window: 1h }]
  - id: unkeyed
    match: { path: /keyed, where: { user: null } }
    by: [ip]
    limits: [{ algorithm: sliding-window-log, max: 1, window: 1h }]
`

export interface ProxySetup {
  readonly app: App
  /** The proxy that lets calls pass while Sluice is down, as in the guide. */
  readonly open: number
  /** The proxy that refuses them. */
  readonly closed: number
  /** Like `open`, with long timeouts. */
  readonly patient: number
  sluice(): Sluice
  restartSluice(): Promise<void>
  /** Another Sluice, with its own proxy before it and the same application behind. */
  startSecond(options: Partial<SluiceOptions>): Promise<number>
  /** Another proxy, which asks the server on this port. */
  startProxyFor(sluicePort: number, options?: ProxyVariant): Promise<number>
}

type ProxyVariant = Partial<Pick<GuideOptions, 'failClosed' | 'isPatient'>>

/** Stopped by `stopAll` and the application's own `close`. */
export async function startProxySetup(startProxy: StartProxy): Promise<ProxySetup> {
  const app = await startApp()
  const newPorts = async (sluicePort?: number): Promise<Ports> => {
    const free = await freePorts('public', 'ask', 'sluice', 'admin')
    return { ...free, sluice: sluicePort ?? free.sluice, app: app.port }
  }
  const proxy = async (ports: Ports, variant: ProxyVariant = {}): Promise<number> => {
    const program = startProxy({ ports, failClosed: false, isPatient: false, ...variant })
    await waitFor(program, () => listensOn(ports.public))
    return ports.public
  }
  const serve = (port: number, options: Partial<SluiceOptions> = {}): Promise<Sluice> =>
    startSluice({ port, rules: RULES, config: CONFIG, ...options })

  const ports = await newPorts()
  let sluice = await serve(ports.sluice)
  const [open, closed, patient] = await Promise.all([
    proxy(ports),
    proxy(await newPorts(ports.sluice), { failClosed: true }),
    proxy(await newPorts(ports.sluice), { isPatient: true }),
  ])
  return {
    app,
    open,
    closed,
    patient,
    sluice: () => sluice,
    async restartSluice() {
      await sluice.stop()
      sluice = await serve(ports.sluice)
    },
    async startSecond(options) {
      const others = await newPorts()
      await serve(others.sluice, options)
      return proxy(others, { isPatient: true })
    },
    startProxyFor: async (sluicePort, variant) => proxy(await newPorts(sluicePort), variant),
  }
}
