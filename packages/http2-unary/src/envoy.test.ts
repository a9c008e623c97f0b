/** What a real Envoy sent over a connection, as `interop/envoy.mjs` has recorded it. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Conversation } from './conversation.test-helper.js'
import { FrameType } from './frames.js'

const FOLDER = new URL('../../../conformance/envoy/recorded/', import.meta.url)
const METHOD = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as T
}

const { requests } = read<{
  readonly requests: readonly { readonly calls: readonly { readonly bytes: string }[] }[]
}>('requests.json')
const messages = requests.flatMap(({ calls }) => calls.map(({ bytes }) => bytes))

const CONNECTIONS = ['connection-tables.json', 'connection-no-tables.json']
/** Whole, as single bytes, and in chunks that end anywhere in a frame. */
const CHUNK_SIZES = [100_000, 1, 7, 100]

for (const name of CONNECTIONS) {
  test.each(CHUNK_SIZES)(`${name} is understood in chunks of %i bytes`, (size) => {
    const received: string[] = []
    const timeoutsMs: (number | undefined)[] = []
    const internal: (string | undefined)[] = []
    const conversation = new Conversation({
      methods: {
        [METHOD]: (message, call) => {
          received.push(message.toString('hex'))
          timeoutsMs.push(call.deadlineMs && call.deadlineMs - conversation.nowMs)
          internal.push(call.metadata('x-envoy-internal'))
          return new Uint8Array(0)
        },
      },
      metadata: ['x-envoy-internal'],
    })
    const bytes = Buffer.from(read<{ readonly bytes: string }>(name).bytes, 'hex')
    for (let at = 0; at < bytes.length; at += size) {
      conversation.send(bytes.subarray(at, at + size))
    }
    expect(received).toEqual(messages)
    expect(new Set(timeoutsMs)).toEqual(new Set([2_000]))
    expect(new Set(internal)).toEqual(new Set(['true']))
    const { protocolErrors, floods, answers, activeStreams } = conversation.context.counters
    expect({ protocolErrors, floods, activeStreams }).toEqual({
      protocolErrors: 0,
      floods: 0,
      activeStreams: 0,
    })
    expect(answers).toBe(messages.length)
    const ended = conversation.frames().filter(({ type }) => type === FrameType.goaway)
    expect(ended).toEqual([])
  })
}
