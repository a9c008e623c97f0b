/** Logs the connections that a gRPC server refused or closed since the last time. */
import { BALANCER_HINT, type ListenerCounts } from '../../http/http-listener.js'
import type { GrpcServerOptions } from './grpc-server.js'

type LogOptions = Pick<GrpcServerOptions, 'log' | 'maxConnections' | 'perAddress'>

export class RefusedConnections {
  readonly #options: LogOptions
  #logged: ListenerCounts = { overMax: 0, overAddressMax: 0, busyCalls: 0, stalled: 0 }

  constructor(options: LogOptions) {
    this.#options = options
  }

  /** @param overAddress the last address that had too many connections */
  log(counts: ListenerCounts, overAddress: string): void {
    const { log, maxConnections, perAddress } = this.#options
    const before = this.#logged
    this.#logged = counts
    const overMax = counts.overMax - before.overMax
    const overAddressMax = counts.overAddressMax - before.overAddressMax
    const stalled = counts.stalled - before.stalled
    if (overMax > 0) log.warn({ connections: overMax, maxConnections }, 'too many connections')
    if (overAddressMax > 0) {
      const address = perAddress.describe(overAddress)
      const most = { setting: 'gateway.maxConnectionsPerAddress', most: perAddress.maxConnections }
      const fields = { connections: overAddressMax, address, ...most, hint: BALANCER_HINT }
      log.warn(fields, 'connections refused: too many from one address')
    }
    if (stalled > 0) {
      log.warn({ connections: stalled }, 'connections closed: the client did not answer a ping')
    }
  }
}
