/** What a server has counted since it was created; the first five say how it is now. */
export interface UnaryServerStats {
  readonly connections: number
  /** Streams whose handler has not answered, or whose answer waits for a window. */
  readonly activeStreams: number
  /** Calls whose answer has not left this process; those that their client has reset have none. */
  readonly inFlight: number
  /** Connections in a drain whose client has not confirmed yet that it opens no more streams. */
  readonly leaving: number
  /** Bytes of streams, incomplete requests, answers that wait, and output that is not read. */
  readonly heldBytes: number

  readonly connectionsAccepted: number
  /** By the bounds of connections in all and for each address, or by `admit`. */
  readonly connectionsRefused: number
  /** Connections that ended because the client broke HTTP/2. */
  readonly protocolErrors: number
  /** Connections that ended with ENHANCE_YOUR_CALM. */
  readonly floods: number
  /** Connections and streams that took longer than a limit allows. */
  readonly timeouts: number
  /** Of these, connections whose client did not read, or did not answer a PING. */
  readonly stalled: number

  /** Calls that a handler was given. */
  readonly calls: number
  /** Calls that were answered, by a handler or with an error. */
  readonly answers: number
  /** Streams that the client reset before they were answered. */
  readonly resets: number
  /** Streams that were refused because there were too many, or too much was held. */
  readonly streamsRefused: number
  /** How often reading paused because streams were given up faster than is permitted. */
  readonly pauses: number
  /** Handlers that threw anything but a GrpcStatusError. */
  readonly handlerErrors: number
}

/** What is not counted, but looked up. */
type Measured = 'connections' | 'inFlight' | 'leaving' | 'heldBytes'

export type Counters = {
  -readonly [Name in keyof Omit<UnaryServerStats, Measured>]: number
}

export function createCounters(): Counters {
  return {
    activeStreams: 0,
    connectionsAccepted: 0,
    connectionsRefused: 0,
    protocolErrors: 0,
    floods: 0,
    timeouts: 0,
    stalled: 0,
    calls: 0,
    answers: 0,
    resets: 0,
    streamsRefused: 0,
    pauses: 0,
    handlerErrors: 0,
  }
}
