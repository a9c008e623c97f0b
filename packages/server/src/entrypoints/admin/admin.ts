/** The admin listener: `/metrics` and the dashboard, which need no token, and the admin API. */
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
import { invalid, problemResponse } from './admin-error.js'

export type { AdminDeps } from './admin-deps.js'

export interface Admin {
  /**
   * Answers one request. For the server's `request` and `checkContinue` alike: who waits for leave
   * to send its body gets it only after its token was found good.
   */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>
  /** Ends the streams of events now: they would not end by themselves. */
  close(): void
}

export function createAdmin(deps: AdminDeps): Admin {
  const events = new EventStreams(deps)
  const app = createAdminApp({ ...deps, events })
  const staticFiles = createStaticFiles(deps.dashboardFolder)
  const errorReporter = new ErrorReporter({ ...deps, component: 'admin API' })
  const metrics = coalesce(deps.metricsText)
  const listener = getRequestListener((request, env) => app.fetch(request, env as HttpBindings), {
    // What HTTP/1.0 leaves out.
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
 * One text for all who ask at the same time. Nobody needs a token for it, and with thousands of
 * rules it takes as long as thousands of decisions.
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

/** A target or a host of which no URL can be made. */
function requestProblem(error: unknown): unknown {
  const isTarget = error instanceof Error && error.name === 'RequestError'
  return isTarget ? invalid('target', 'no URL', 'a path and a host') : error
}

async function sendMetrics(
  { method }: IncomingMessage,
  response: ServerResponse,
  metrics: () => Promise<Buffer>,
): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') {
    const headers = ['Allow', 'GET, HEAD']
    return sendProblem(response, { status: 405, detail: 'Accepted: GET, HEAD', headers })
  }
  const body = await metrics()
  const length = String(body.length)
  response.writeHead(200, ['Content-Type', METRICS_CONTENT_TYPE, 'Content-Length', length])
  response.end(body)
}
