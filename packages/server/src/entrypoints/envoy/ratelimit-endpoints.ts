/**
 * The HTTP endpoints of envoyproxy/ratelimit, under the paths that probes and dashboards know:
 * `/healthcheck` and `/json`, `/rlconfig` for debugging, and metrics.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { METRICS_CONTENT_TYPE } from '../../observability/metrics/registry.js'
import { readBody } from '../decision-api/read-body.js'
import { sendText } from '../http/responses.js'
import type { EnvoyConfig } from './config/config-source.js'
import type { JsonEndpoint } from './json-endpoint.js'

const TEXT_TYPE = 'text/plain; charset=utf-8'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface HttpEndpointsDeps {
  readonly isHealthy: () => boolean
  readonly json: JsonEndpoint
  /** Whether a request over HTTP may give back what callers used. */
  readonly mayGiveBack: boolean
}

export function httpEndpoints({ isHealthy, json, mayGiveBack }: HttpEndpointsDeps): Handler {
  return byPath({
    '/healthcheck': (_request, response) => {
      if (isHealthy()) sendText(response, { status: 200, contentType: TEXT_TYPE, body: 'OK' })
      else sendText(response, { status: 500, contentType: TEXT_TYPE, body: '' })
    },
    '/json': (request, response) => {
      readBody(request, response, (body) => {
        if (body === undefined) return sendLine(response, 413, 'Content Too Large')
        void json.answer(body, { mayGiveBack }).then((answer) => {
          if (answer === 'forbidden') sendLine(response, 403, 'Forbidden')
          else sendText(response, answer)
        })
      })
    },
  })
}

export function debugEndpoints(current: () => EnvoyConfig | undefined): Handler {
  return byPath({
    '/': (_request, response) => {
      sendLine(response, 200, '/rlconfig: the configuration that is active')
    },
    '/rlconfig': (_request, response) => {
      const body = describeConfig(current())
      sendText(response, { status: 200, contentType: TEXT_TYPE, body })
    },
  })
}

export function metricsEndpoint(path: string, metricsText: () => string): Handler {
  return byPath({
    [path]: (_request, response) => {
      const body = metricsText()
      sendText(response, { status: 200, contentType: METRICS_CONTENT_TYPE, body })
    },
  })
}

function byPath(handlers: Readonly<Record<string, Handler>>): Handler {
  const known = new Map(Object.entries(handlers))
  return (request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const handler = known.get(path)
    if (handler === undefined) sendLine(response, 404, '404 page not found')
    else handler(request, response)
  }
}

function sendLine(response: ServerResponse, status: number, line: string): void {
  sendText(response, { status, contentType: TEXT_TYPE, body: `${line}\n` })
}

/** A line for each limit, in the order of the configuration. */
function describeConfig(config: EnvoyConfig | undefined): string {
  const lines: string[] = []
  for (const { nodes } of config?.domains.values() ?? []) {
    for (const { path, limit, isShadow, isQuota } of nodes) {
      const { requestsPerUnit, unit = 'unknown', isUnlimited } = limit
      const amount = `unit=${unit.toUpperCase()} requests_per_unit=${requestsPerUnit}`
      const unlimited = isUnlimited ? ', unlimited: true' : ''
      const modes = `shadow_mode: ${isShadow}, quota_mode: ${isQuota}`
      lines.push(`${path}: ${amount}${unlimited}, ${modes}\n`)
    }
  }
  return lines.join('')
}
