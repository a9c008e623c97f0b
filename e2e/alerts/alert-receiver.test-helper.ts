/** A webhook receiver as an operator would run one: it accepts only signed alerts. */
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { AlertView } from '@sluice/client'
import { afterAll, expect, vi } from 'vitest'

export const SECRET = 'e2e-secret-that-signs-each-alert'
export const RUNBOOK = 'https://wiki.example/runbook'
const GUIDE = readFileSync(new URL('../../docs/guides/runbook.md', import.meta.url), 'utf8')
const HOST = '127.0.0.1'

interface PostedAlert {
  readonly state: 'firing' | 'resolved'
  readonly alert: AlertView
  /** What the receiver answered. */
  readonly status: number
  /** The delivery id, which is the same for every attempt of one delivery. */
  readonly delivery: string
}

export class AlertReceiver {
  /** Every request received, including those answered with an error. */
  readonly posted: PostedAlert[] = []
  /** Sets the status of the next answers. */
  status = 204
  /** Whether it closes every connection without answering. */
  dropsConnections = false
  readonly #problems: string[] = []
  #server: Server | undefined

  /** Begins anew, as for a test that is repeated. */
  async open(): Promise<string> {
    await this.close()
    this.posted.length = 0
    this.#problems.length = 0
    const server = createServer((incoming, response) => {
      void this.receive(incoming).then((status) => response.writeHead(status).end())
    })
    server.on('connection', (socket) => void (this.dropsConnections && socket.destroy()))
    await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
    this.#server = server
    return `http://${HOST}:${(server.address() as AddressInfo).port}/alerts`
  }

  async close(): Promise<void> {
    const server = this.#server
    if (server === undefined) return
    this.#server = undefined
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }

  /** The accepted alerts whose ids begin with this prefix, in order of arrival. */
  accepted(id: string): readonly PostedAlert[] {
    return this.posted.filter((each) => each.alert.id.startsWith(id) && each.status < 300)
  }

  /** Waits until the last accepted alert with this prefix has that state. */
  async waitForState(
    id: string,
    state: PostedAlert['state'],
    withinMs = 120_000,
  ): Promise<AlertView> {
    return vi.waitFor(
      () => {
        const last = this.accepted(id).at(-1)
        expect(last?.state, this.summary()).toBe(state)
        return last?.alert as AlertView
      },
      { timeout: withinMs, interval: 50 },
    )
  }

  /** Expects that each alert fired once and resolved once, signed and with its runbook section. */
  expectFiredOnce(...ids: readonly string[]): void {
    for (const id of ids) {
      const accepted = this.accepted(id)
      expect(
        accepted.map(({ state }) => state),
        this.summary(),
      ).toEqual(['firing', 'resolved'])
      const [fired, resolved] = accepted.map((each) => each.alert)
      expect(resolved).toMatchObject({ id: fired?.id, since: fired?.since, node: fired?.node })
      expect(fired?.resolvedAt).toBeNull()
      expect(Date.parse(resolved?.resolvedAt ?? '')).toBeGreaterThan(
        Date.parse(resolved?.since ?? ''),
      )
    }
    expect(this.#problems).toEqual([])
    for (const { alert } of this.posted) expectSection(alert)
  }

  /** The received alerts, one per line, for failure messages. */
  summary(): string {
    const lines = this.posted.map(
      ({ state, status, alert: { id, since, resolvedAt } }) =>
        `${state} ${id} since ${since} until ${resolvedAt ?? ''}: ${status}`,
    )
    return `The receiver got:\n${lines.join('\n')}`
  }

  private async receive(incoming: IncomingMessage): Promise<number> {
    const pieces: Buffer[] = []
    for await (const piece of incoming) pieces.push(piece as Buffer)
    const body = Buffer.concat(pieces)
    const { 'x-sluice-signature': signature, 'x-sluice-delivery': delivery } = incoming.headers
    const expectedSignature = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`
    if (signature !== expectedSignature) this.#problems.push(`a signature: ${String(signature)}`)
    if (typeof delivery !== 'string') this.#problems.push('no id of a delivery')
    const { state, alert } = JSON.parse(body.toString()) as Pick<PostedAlert, 'state' | 'alert'>
    const { status } = this
    this.posted.push({ state, alert, status, delivery: String(delivery) })
    return status
  }
}

function expectSection({ alert, runbook }: AlertView): void {
  expect(runbook).toBe(`${RUNBOOK}#${alert}`)
  expect(GUIDE).toContain(`\n## ${alert}\n`)
}

/** One receiver for the tests of a file, closed after the last. */
export function useReceiver(): AlertReceiver {
  const receiver = new AlertReceiver()
  afterAll(() => receiver.close())
  return receiver
}
