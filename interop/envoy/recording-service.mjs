/** A rate limit service on @sluice/http2-unary that keeps what it is sent and answers as told. */
import { ANSWER_OK, decodeRequest } from './messages.mjs'

const METHOD = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

/** What Envoy says to services that it takes for internal. */
const METADATA = ['x-envoy-internal', 'x-envoy-expected-rq-timeout-ms', 'x-forwarded-for']

export async function startRecordingService(createUnaryServer) {
  const calls = []
  const errors = []
  const service = {
    /** Gets the decoded request, returns the answer or a promise of it. */
    respond: () => ANSWER_OK,
    isRecording: true,
    calls,
    errors,
  }
  const start = async (at) => {
    service.server = createUnaryServer({
      methods: {
        [METHOD]: (message, call) => {
          if (service.isRecording) calls.push(record(message, call))
          return service.respond(message)
        },
      },
      metadata: METADATA,
      onError: (error) => errors.push(error),
    })
    const found = await service.server.listen({ host: '127.0.0.1', port: at })
    service.port = found.port
  }
  await start(0)
  return Object.assign(service, {
    stop: () => service.server.close(),
    /** Drains the server; another one has taken its port before clients are asked to go. */
    replace: async (ms) => {
      const drained = service.server.drain(ms)
      await start(service.port)
      await drained
    },
  })
}

function record(message, call) {
  return {
    bytes: message.toString('hex'),
    request: decodeRequest(message),
    hasDeadline: call.deadlineMs !== undefined,
    metadata: METADATA.filter((name) => call.metadata(name) !== undefined),
  }
}
