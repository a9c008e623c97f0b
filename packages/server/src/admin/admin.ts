/** The admin listener: `/metrics`, which needs no token. Admin API and dashboard belong here. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerProblem } from '../http/answer.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { METRICS_CONTENT_TYPE } from '../metrics/registry.js'

export interface AdminParts {
  readonly metricsText: () => string | Promise<string>
}

export function createAdmin({ metricsText }: AdminParts) {
  return {
    async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
      limitUnreadBody(request, response)
      const path = (request.url ?? '').split('?')[0]
      if (path !== '/metrics') {
        return answerProblem(response, { status: 404, detail: 'Accepted: /metrics' })
      }
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        const headers = ['Allow', 'GET, HEAD']
        return answerProblem(response, { status: 405, detail: 'Accepted: GET, HEAD', headers })
      }
      const body = Buffer.from(await metricsText())
      const length = String(body.length)
      response.writeHead(200, ['Content-Type', METRICS_CONTENT_TYPE, 'Content-Length', length])
      response.end(body)
    },
  }
}
