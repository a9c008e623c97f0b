/**
 * SIGTERM while clients call the rate limit service as fast as they can. The server `own` answers
 * every call. Node, on which `grpc-js` is, stops reading once a connection has no stream; GOAWAY
 * then says which calls it did not read, so that clients send them again.
 */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import {
  closeAfterEach,
  closeAfterTest,
  eventually,
  SERVERS,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import {
  callFrames,
  FLAG,
  FRAME,
  frame,
  frameSplitter,
  PREFACE,
  type ReceivedFrame,
} from '../packages/server/src/entrypoints/envoy/grpc/http2-frames.test-helper.js'
import { encodeRequest } from '../packages/server/src/entrypoints/envoy/protobuf/official-messages.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { start } from './serve.test-helper.js'

afterEach(stopAll)
closeAfterEach()

const CONNECTIONS = 8
/** Calls of one connection at a time. */
const AT_ONCE = 20
/** So many calls of each connection are answered before the server is stopped. */
const WARM = 100
const WINDOW = Buffer.from([0x3f, 0xff, 0, 0])
const MESSAGE = encodeRequest({
  domain: 'edge',
  descriptors: [
    {
      entries: [{ key: 'remote_address', value: '192.0.2.1' }],
      limit: undefined,
      hitsAddend: undefined,
      isNegativeHits: false,
    },
  ],
  hitsAddend: 0,
})

/** Sends a call for each that is answered, until it reads that the connection is to end. */
class Caller {
  readonly #socket
  readonly #waiting = new Set<number>()
  readonly #delayMs: number
  readonly ended: Promise<void>
  #next = 1
  answered = 0
  /** The last stream of the last GOAWAY. */
  #lastStream: number | undefined

  /** @param delayMs how long the way to the server takes */
  constructor(grpc: string, delayMs: number) {
    const [host, port] = grpc.split(':')
    this.#delayMs = delayMs
    this.#socket = connect(Number(port), host, () => {
      this.write(Buffer.concat([PREFACE, frame(FRAME.windowUpdate, 0, 0, WINDOW)]))
      for (let lane = 0; lane < AT_ONCE; lane++) this.call()
    })
    closeAfterTest(() => void this.#socket.destroy())
    this.#socket.on(
      'data',
      frameSplitter((received) => this.read(received)),
    )
    this.#socket.on('error', () => {})
    this.ended = new Promise((resolve) => this.#socket.once('close', () => resolve()))
  }

  /** The calls without an answer, sent before the client knew that it was to leave. */
  get unanswered(): readonly number[] {
    return [...this.#waiting]
  }

  /** Those of them that may have been decided, so that the client cannot send them again. */
  get lost(): readonly number[] {
    return this.unanswered.filter((stream) => stream <= (this.#lastStream ?? Infinity))
  }

  private read({ type, flags, stream, payload }: ReceivedFrame): void {
    if (type === FRAME.goaway) this.#lastStream = payload.readUInt32BE(0)
    if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
      this.write(frame(FRAME.settings, FLAG.ack, 0))
    }
    if (type === FRAME.ping && (flags & FLAG.ack) === 0) {
      this.write(frame(FRAME.ping, FLAG.ack, 0, payload))
    }
    if (type !== FRAME.headers || (flags & FLAG.endStream) === 0) return
    this.#waiting.delete(stream)
    this.answered++
    if (this.#lastStream === undefined) this.call()
  }

  private call(): void {
    this.#waiting.add(this.#next)
    this.write(callFrames(this.#next, MESSAGE))
    this.#next += 2
  }

  private write(bytes: Buffer): void {
    if (this.#delayMs === 0) this.#socket.write(bytes)
    else setTimeout(() => this.#socket.write(bytes), this.#delayMs)
  }
}

const CASES = SERVERS.flatMap((server) => [0, 400].map((delayMs) => [server, delayMs] as const))

test.each(CASES)(
  'SIGTERM to a server %s under load loses no call of clients that are %i ms away',
  async (server, delayMs) => {
    const folder = makeFolder()
    const config = `envoy: { server: ${server}, deadline: 10s }\nshutdown: { delay: 0ms }\n`
    writeFileSync(join(folder, 'sluice.yaml'), config)
    const { program, grpc } = await start({ SLUICE_ALLOW_NO_RULES: 'true' }, folder)
    const callers = Array.from({ length: CONNECTIONS }, () => new Caller(grpc, delayMs))
    await eventually(() => Math.min(...callers.map(({ answered }) => answered))).toBeGreaterThan(
      WARM,
    )
    program.signal('SIGTERM')
    await Promise.all(callers.map(({ ended }) => ended))
    expect(callers.flatMap(({ lost }) => lost)).toEqual([])
    if (server === 'own') expect(callers.flatMap(({ unanswered }) => unanswered)).toEqual([])
    expect(await program.code()).toBe(0)
  },
)
