/** The admin listener: `/metrics` and the dashboard, both without a token, and the admin API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { ErrorReporter } from '../http/error-reporter.js'
import { sendProblem } from '../http/responses.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { METRICS_CONTENT_TYPE } from '../../observability/metrics/registry.js'
import type { AdminDeps } from './admin-deps.js'
import { createAdminApp } from './admin-app.js'
import { EventStreams } from './event-streams.js'
import { createStaticFiles } from './static-files.js'
import { AdminError, problemResponse } from './admin-error.js'

export interface Admin {
  /**
   * Handles one request, of the server's `request` and `checkContinue` events alike: a client that
   * sends `Expect: 100-continue` may send its body only after its token was accepted.
   */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>
  /** Ends the event streams, which would not end by themselves. */
  close(): void
}

export function createAdmin(deps: AdminDeps): Admin {
  const events = new EventStreams(deps)
  const app = createAdminApp({ ...deps, events })
  const staticFiles = createStaticFiles(deps.dashboardFiles)
  const errorReporter = new ErrorReporter({ ...deps, component: 'admin API' })
  const metrics = coalesce(deps.metricsText)
  const listener = getRequestListener((request, env) => app.fetch(request, env as HttpBindings), {
    // For HTTP/1.0 requests without a Host header.
    hostname: 'localhost',
    overrideGlobalObjects: false,
    errorHandler: (error) => problemResponse(requestProblem(error), errorReporter),
  })
  return {
    async handle(request, response) {
      limitUnreadBody(request, response)
      const path = (request.url ?? '').split('?')[0]
      if (path === '/metrics') return sendMetrics(request, response, metrics)
      if (staticFiles.handle(request, response)) return undefined
      return listener(request, response)
    },
    close: () => events.close(),
  }
}

/**
 * Shares one text among concurrent requests: metrics need no token, and with thousands of rules one
 * text costs as much as thousands of decisions.
 */
function coalesce(make: AdminDeps['metricsText']): () => Promise<Buffer> {
  let pending: Promise<Buffer> | undefined
  return () => {
    pending ??= nextTurn()
      .then(async () => Buffer.from(await make()))
      .finally(() => (pending = undefined))
    return pending
  }
}

/** Recognises a request target or host that makes no valid URL. */
function requestProblem(error: unknown): unknown {
  const isTarget = error instanceof Error && error.name === 'RequestError'
  return isTarget
    ? new AdminError('invalid_request', 'The request target or the Host header is not valid.')
    : error
}

async function sendMetrics(
  { method }: IncomingMessage,
  response: ServerResponse,
  metrics: () => Promise<Buffer>,
): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') {
    const headers = ['Allow', 'GET, HEAD']
    return sendProblem(response, { status: 405, detail: 'Allowed methods: GET, HEAD.', headers })
  }
  const body = await metrics()
  const length = String(body.length)
  response.writeHead(200, ['Content-Type', METRICS_CONTENT_TYPE, 'Content-Length', length])
  response.end(body)
}
