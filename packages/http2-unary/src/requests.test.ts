/** Requests that are refused, and how. */
import { describe, expect, test } from 'vitest'
import {
  block,
  call,
  Conversation,
  data,
  type Field,
  grpc,
  headers,
  PATH,
  REQUEST,
  requestTo,
} from './conversation.test-helper.js'
import { ErrorCode } from './frames.js'

const OK = { status: '200', grpcStatus: '0', isEnded: true, reset: undefined }

describe('a request that is refused', () => {
  const withField = (name: string, value: string) =>
    REQUEST.map((field): Field => (field[0] === name ? [name, value] : field))
  const send = (...chunks: readonly Buffer[]) => {
    const conversation = Conversation.open({ limits: { messageBytes: 100 } })
    conversation.send(...chunks)
    return conversation.reply(1)
  }

  test.each([
    ['an unknown method', requestTo('/test.Service/Unknown'), '12'],
    ['a malformed timeout', requestTo(PATH, ['grpc-timeout', '20']), '13'],
  ])('%s has a status of gRPC', (_what, fields, grpcStatus) => {
    expect(send(call(1, 'hello', fields))).toMatchObject({ ...OK, grpcStatus })
  })

  test.each([
    ['GET', withField(':method', 'GET'), '405'],
    ['HEAD', withField(':method', 'HEAD'), '405'],
    ['JSON', withField('content-type', 'application/json'), '415'],
    ['gRPC-Web', withField('content-type', 'application/grpc-web'), '415'],
    ['gRPC with JSON', withField('content-type', 'application/grpc+json'), '415'],
    ['no content-type', REQUEST.filter(([name]) => name !== 'content-type'), '415'],
    ['large headers', requestTo(PATH, ['x-large', 'a'.repeat(16_100)]), '431'],
  ])('%s has a status of HTTP', (what, fields, status) => {
    const reply = send(call(1, 'hello', fields))
    expect(reply).toMatchObject({ status, grpcStatus: undefined, isEnded: true })
    expect(reply.body === '').toBe(what === 'HEAD')
  })

  test.each([
    'application/grpc',
    'application/grpc+proto',
    'application/grpc; x=y',
    'Application/gRPC',
  ])('is not one of the type %s', (type) => {
    expect(send(call(1, 'hello', withField('content-type', type)))).toMatchObject(OK)
  })

  test.each([
    ['a compressed message', grpc('hello', 1), '12'],
    ['a flag of compression that is none', grpc('hello', 2), '13'],
    ['two messages', Buffer.concat([grpc('a'), grpc('b')]), '12'],
    ['no message', Buffer.alloc(0), '12'],
    ['a message that is cut', grpc('hello').subarray(0, 8), '13'],
    ['a message that is too long', grpc('a'.repeat(101)), '8'],
  ])('%s has a status, in whatever frames it comes', (_what, body, grpcStatus) => {
    const whole = send(headers(1, block(REQUEST)), data(1, body))
    expect(whole).toMatchObject({ ...OK, grpcStatus })
    const bytes = [...body].map((byte) => data(1, Buffer.from([byte]), false))
    const cut = send(headers(1, block(REQUEST)), ...bytes, data(1, Buffer.alloc(0)))
    expect(cut).toMatchObject({ grpcStatus, isEnded: true })
  })

  test('while it is sent is answered at once, and the rest of it is ignored', () => {
    const conversation = Conversation.open({ limits: { messageBytes: 100 } })
    conversation.send(headers(1, block(REQUEST)), data(1, grpc('a'.repeat(200)), false))
    expect(conversation.reply(1)).toMatchObject({ grpcStatus: '8', isEnded: true, reset: 0 })
    conversation.send(data(1, Buffer.alloc(100), false), data(1, Buffer.alloc(1)), call(3))
    expect(conversation.reply(3)).toMatchObject(OK)
  })

  test('as an unknown method is answered with its first message: it may be a stream', () => {
    const conversation = Conversation.open()
    const unknown = block(requestTo('/test.Service/Stream'))
    conversation.send(headers(1, unknown), data(1, grpc('a'), false), data(1, grpc('b'), false))
    expect(conversation.reply(1)).toMatchObject({ grpcStatus: '12', isEnded: true, reset: 0 })
    expect(conversation.context).toMatchObject({ held: { bytes: 0 }, counters: { answers: 1 } })
  })

  test('with more than its content-length is a stream error at once', () => {
    const fields = block([...REQUEST, ['content-length', '3']])
    expect(send(headers(1, fields), data(1, Buffer.alloc(4), false))).toMatchObject({
      grpcStatus: undefined,
      reset: ErrorCode.protocolError,
    })
  })

  test.each([
    ['a name in capitals', [...REQUEST, ['X-A', 'b']]],
    ['a header of the connection', [...REQUEST, ['connection', 'close']]],
    ['te other than trailers', withField('te', 'gzip')],
    ['a pseudo-header after others', [...REQUEST.slice(1), [':method', 'POST']]],
    ['an unknown pseudo-header', [[':a', 'b'], ...REQUEST]],
    ['a status', [[':status', '200'], ...REQUEST]],
    ['a second path', [[':path', PATH], ...REQUEST]],
    ['an empty path', withField(':path', '')],
    ['no scheme', REQUEST.filter(([name]) => name !== ':scheme')],
    ['a wrong content-length', [...REQUEST, ['content-length', '9']]],
    ['a content-length that is no number', [...REQUEST, ['content-length', '1e1']]],
    ['two lengths', [...REQUEST, ['content-length', '10'], ['content-length', '11']]],
  ] as readonly [string, readonly Field[]][])('%s is a stream error', (_what, fields) => {
    expect(send(call(1, 'hello', fields))).toMatchObject({
      grpcStatus: undefined,
      reset: ErrorCode.protocolError,
    })
  })

  test('right content-length passes', () => {
    expect(send(call(1, 'hello', [...REQUEST, ['content-length', '10']]))).toMatchObject(OK)
  })
})
