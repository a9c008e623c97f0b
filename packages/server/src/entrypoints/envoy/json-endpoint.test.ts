import { describe, expect, test } from 'vitest'
import {
  ADMIN_TOKEN,
  API_TOKEN,
  closeAfterTests,
  startApi,
} from '../decision-api/decision-api.test-helper.js'
import { RESPONSE, testService } from './envoy.test-helper.js'
import { GRPC_CODES, GrpcError } from './grpc-error.js'

closeAfterTests()

const REQUEST = {
  domain: 'dummy',
  descriptors: [{ entries: [{ key: 'one_per_day', value: 'something' }] }],
  hitsAddend: 1,
}
const BAD_REQUEST = {
  status: 400,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  text: 'Bad Request\n',
}

describe('/json', () => {
  test('answers 200 for what is within its limits', async () => {
    const service = testService()
    const api = await startApi({ rateLimitService: service })
    const answer = await api.post('/json', REQUEST)
    expect(answer).toMatchObject({
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: {
        overallCode: 'OK',
        statuses: [
          {
            code: 'OK',
            currentLimit: { requestsPerUnit: 50, unit: 'SECOND' },
            limitRemaining: 49,
            durationUntilReset: '1s',
          },
        ],
      },
    })
    expect(service.requests).toMatchObject([{ domain: 'dummy', hitsAddend: 1 }])
    expect(service.options).toEqual([{ timeoutMs: undefined }])
  })

  test('answers 429 for what is over a limit', async () => {
    const service = testService(async () => ({ ...RESPONSE, overallCode: 'over-limit' }))
    const api = await startApi({ rateLimitService: service })
    const { status, headers, body } = await api.post('/json', REQUEST)
    expect(status).toBe(429)
    expect(headers['content-type']).toBe('application/json')
    expect(body).toMatchObject({ overallCode: 'OVER_LIMIT' })
  })

  test.each([
    ['an empty body', ''],
    ['no JSON', '{"domain":'],
    ['an unknown field', '{"domain":"d","cost":1}'],
    ['bytes that are not UTF-8', Buffer.from('{"domain":"\xff"}', 'latin1')],
    ['a field of another type', '{"domain":1}'],
    ['too many descriptors', JSON.stringify({ descriptors: Array(257).fill({}) })],
  ])('answers 400 for %s', async (_name, body) => {
    const service = testService()
    const api = await startApi({ rateLimitService: service })
    expect(await api.post('/json', Buffer.from(body))).toMatchObject(BAD_REQUEST)
    expect(service.requests).toEqual([])
    expect(api.memoryLog.lines).toEqual([])
  })

  test('answers 400 if the service refuses the request', async () => {
    const service = testService(() => {
      throw new GrpcError(GRPC_CODES.invalidArgument, 'rate limit domain must not be empty')
    })
    const api = await startApi({ rateLimitService: service })
    expect(await api.post('/json', {})).toMatchObject(BAD_REQUEST)
  })

  test('answers 500 if the service fails, and the log says why', async () => {
    const service = testService(() => Promise.reject(new Error('secret')))
    const api = await startApi({ rateLimitService: service })
    expect(await api.post('/json', REQUEST)).toMatchObject({
      status: 500,
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      text: 'Internal Server Error\n',
    })
    expect(api.memoryLog.lines).toMatchObject([{ error: 'Error: secret' }])
  })

  test('answers any content type, and no other method than POST', async () => {
    const api = await startApi({ rateLimitService: testService() })
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await api.post('/json', REQUEST, { headers })).status).toBe(200)
    expect((await api.send('/json')).status).toBe(405)
  })

  test('needs the token of the API where one is configured', async () => {
    const service = testService()
    const api = await startApi({ rateLimitService: service, token: API_TOKEN })
    expect((await api.post('/json', REQUEST)).status).toBe(401)
    for (const token of [API_TOKEN, ADMIN_TOKEN]) {
      expect((await api.post('/json', REQUEST, { token })).status).toBe(200)
    }
    expect(service.requests).toHaveLength(2)
  })

  test('gives hits back only for the admin token, like a refund by attributes', async () => {
    const service = testService()
    const api = await startApi({ rateLimitService: service })
    const descriptors = [{ ...REQUEST.descriptors[0], hitsAddend: '5', isNegativeHits: true }]
    const request = { domain: 'd', descriptors }
    expect(await api.post('/json', request)).toMatchObject({
      status: 401,
      body: { detail: 'A request that gives hits back needs the admin token.' },
    })
    expect(service.requests).toEqual([])
    expect((await api.post('/json', request, { token: ADMIN_TOKEN })).status).toBe(200)
    expect(service.requests).toMatchObject([{ descriptors: [{ isNegativeHits: true }] }])
  })

  test('is refused to web pages', async () => {
    const api = await startApi({ rateLimitService: testService() })
    const headers = { origin: 'https://evil.example' }
    expect((await api.post('/json', REQUEST, { headers })).status).toBe(403)
  })

  test('is bounded like every body of the API', async () => {
    const api = await startApi({ rateLimitService: testService() })
    expect((await api.post('/json', ' '.repeat(64 * 1024 + 1))).status).toBe(413)
  })

  test('is not there without the service', async () => {
    const api = await startApi({ rateLimitService: undefined })
    expect((await api.post('/json', REQUEST)).status).toBe(404)
  })
})
