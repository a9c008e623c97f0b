/** The bytes that a real Envoy sent, as `interop/envoy.mjs` has recorded them. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { RateLimitRequest } from '../rate-limit-messages.js'
import { decodeRateLimitRequest } from './rate-limit-codec.js'

interface Recorded {
  readonly name: string
  readonly calls: readonly { readonly bytes: string; readonly request: RateLimitRequest }[]
}

const FILE = new URL('../../../../../../conformance/envoy/recorded/requests.json', import.meta.url)
const { requests } = JSON.parse(readFileSync(FILE, 'utf8')) as {
  readonly requests: readonly Recorded[]
}

const requestsOf = (name: string) =>
  requests.find((recorded) => recorded.name === name)?.calls.map(({ request }) => request)

describe('requests of a real Envoy', () => {
  test.each(requests.filter(({ calls }) => calls.length > 0))(
    'the bytes of "$name" decode to what was configured',
    ({ calls }) => {
      for (const { bytes, request } of calls) {
        expect(decodeRateLimitRequest(Buffer.from(bytes, 'hex'))).toEqual(request)
      }
    },
  )

  test('only a descriptor whose cost is configured has a cost of its own', () => {
    const costs = (name: string) =>
      requestsOf(name)?.map(({ descriptors }) => descriptors.map(({ hitsAddend }) => hitsAddend))
    expect(costs('remote-address')).toEqual([[undefined]])
    expect(costs('per-route-without-hits')).toEqual([[undefined]])
    expect(costs('stream-end-without-hits')).toEqual([[undefined]])
    expect(costs('hits-zero')).toEqual([[0]])
    expect(costs('metered-with-an-ordinary-descriptor')).toEqual([[undefined, 0], [120]])
  })

  test('costs that are given back are marked', () => {
    expect(requestsOf('negative-hits')).toMatchObject([
      { descriptors: [{ hitsAddend: 5, isNegativeHits: true }] },
    ])
  })
})
