/**
 * A proxy to a server that can switch to another one, and whose open connections can die silently
 * while new ones work: what a load balancer or a router does and the fault proxy does not.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

const HOST = '127.0.0.1'

interface Pair {
  readonly client: Socket
  readonly server: Socket
  isFrozen: boolean
}

export interface SwitchableProxy {
  readonly url: string
  /** Open connections carry nothing any more, and never end. */
  freeze(): void
  /** Resets open connections; new ones lead to that port. */
  switchTo(port: number): void
  /** When connections were opened, since the start. */
  readonly acceptedMs: readonly number[]
  stop(): Promise<void>
}

export async function startSwitchableProxy(port: number): Promise<SwitchableProxy> {
  const pairs = new Set<Pair>()
  const acceptedMs: number[] = []
  let target = port
  const listener = createServer({ noDelay: true }, (client) => {
    acceptedMs.push(performance.now())
    const server = connect({ port: target, host: HOST, noDelay: true })
    const pair: Pair = { client, server, isFrozen: false }
    pairs.add(pair)
    forward(pair, client, server)
    forward(pair, server, client)
    client.once('close', () => pairs.delete(pair))
  })
  listener.listen(0, HOST)
  await once(listener, 'listening')
  const address = listener.address() as AddressInfo
  const cut = () => {
    for (const { client, server } of pairs) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
  }
  return {
    url: `redis://${HOST}:${address.port}`,
    acceptedMs,
    freeze() {
      for (const pair of pairs) pair.isFrozen = true
    },
    switchTo(next) {
      target = next
      cut()
    },
    async stop() {
      const closed = once(listener, 'close')
      listener.close()
      cut()
      await closed
    },
  }
}

function forward(pair: Pair, from: Socket, to: Socket): void {
  from.on('data', (bytes) => {
    if (!pair.isFrozen) to.write(bytes)
  })
  from.on('error', () => {})
  from.on('close', () => {
    if (!pair.isFrozen) to.resetAndDestroy()
    // A client that gives up a dead connection has gone, even if the server has not noticed.
    else if (from === pair.client) pair.server.destroy()
  })
}
