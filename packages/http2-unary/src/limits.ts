/** Every bound of the server that its user may change, with its reason. */
export interface UnaryServerLimits {
  /** Streams of one connection at once, those included that were reset and whose handler runs. */
  readonly streams: number
  /** The longest message of a request. */
  readonly messageBytes: number
  /**
   * The headers of one request, uncompressed, as HTTP/2 counts them. More than 32 KiB of compressed
   * ones end the connection whatever this is.
   */
  readonly headerListBytes: number
  /**
   * What one connection holds of incomplete requests, of answers that wait for a window, of output
   * that is not read, and of its streams, at 512 bytes each with the metadata that handlers read.
   * Beyond it new streams are refused.
   */
  readonly connectionHeldBytes: number
  /** The same of all together. Beyond it, connections that hold more than 16 KiB are refused. */
  readonly heldBytes: number
  readonly connections: number
  readonly connectionsPerAddress: number
  /** From the connection to the client's first SETTINGS, the handshake of TLS apart. */
  readonly prefaceMs: number
  /** From our SETTINGS to their acknowledgement. */
  readonly settingsAckMs: number
  /** From the first byte of a frame, or of a block of headers, to its end. */
  readonly frameMs: number
  /** From the headers of a request to its end. */
  readonly requestMs: number
  /** From the headers of a request until its answer is sent; its handler may take this long. */
  readonly callMs: number
  /** How long an answer waits for a window, or output for a peer that does not read. */
  readonly stalledMs: number
  /** A connection without a call for so long is closed by GOAWAY. */
  readonly idleMs: number
  /** The same for a connection that is this old, give or take 10 %. */
  readonly ageMs: number
  /**
   * From the first GOAWAY of a connection until new streams are refused, unless the client confirms
   * earlier, by answering a PING, that it knows.
   */
  readonly noticeMs: number
  /** From the first GOAWAY of a connection until it is closed, even if calls have not ended. */
  readonly drainMs: number
  /** A client that has sent nothing for so long is asked by PING whether it is still there. */
  readonly pingMs: number
  /** How long it may then go on to send nothing. */
  readonly pingTimeoutMs: number
}

export const DEFAULT_LIMITS: UnaryServerLimits = {
  // A proxy sends all its calls over one connection for each of its threads, and counts only those
  // that it has not given up: fewer streams would refuse calls while a store is slow.
  streams: 1_000,
  // A thousand times a usual message. gRPC's own default, 4 MiB, is for general services.
  messageBytes: 256 * 1_024,
  // As much as most servers accept; calls of proxies have less than 1 KiB.
  headerListBytes: 16 * 1_024,
  // Some fifteen of the largest messages at once, or a thousand of 3 KiB.
  connectionHeldBytes: 4 * 1_024 * 1_024,
  // Of all clients together, so that many connections cannot use up the memory of the process.
  heldBytes: 64 * 1_024 * 1_024,
  // A fleet of hundreds of proxies with some threads each. A connection costs at most some 80 KiB
  // beside what is held.
  connections: 4_096,
  // Many proxies may share one address behind a NAT, but not take all connections.
  connectionsPerAddress: 1_024,
  // A client sends its preface at once; this leaves room for some lost packets.
  prefaceMs: 10_000,
  // RFC 9113 wants "a reasonable amount of time". A busy client is alive for longer than a preface.
  settingsAckMs: 20_000,
  // 16 KiB in this time are 5 kbit/s.
  frameMs: 30_000,
  // As long as the longest deadline that a call with one small message has in practice.
  requestMs: 30_000,
  // Ten times that: an answer that takes longer is of no use, and its stream counts until then.
  callMs: 5 * 60_000,
  // A client that has not read for so long has given up every call.
  stalledMs: 30_000,
  // Longer than the pauses of a client that is in use. Proxies close idle connections themselves
  // after an hour; a closed one costs them a handshake.
  idleMs: 15 * 60_000,
  // Connections spread over new processes in a day, and not all at the same time.
  ageMs: 24 * 60 * 60_000,
  // Longer than what is on its way from a client, and than a pause of its process.
  noticeMs: 5_000,
  // Calls take seconds at most; a client that keeps one open longer does not end by itself.
  drainMs: 60_000,
  // A peer that disappeared holds its connection no longer than these two together.
  pingMs: 60_000,
  pingTimeoutMs: 20_000,
}

export function resolveLimits(given: Partial<UnaryServerLimits> = {}): UnaryServerLimits {
  const limits = { ...DEFAULT_LIMITS, ...given }
  for (const [name, value] of Object.entries(limits)) {
    if (Number.isSafeInteger(value) && value >= 1 && value <= LIMIT_MAX) continue
    throw new RangeError(`limits.${name}: found ${value}; accepted: 1 to ${LIMIT_MAX}`)
  }
  return limits
}

/** Windows and timers have 31 bits. The message has to fit a window with its prefix. */
const LIMIT_MAX = 2 ** 31 - 1_024
