/** Writes decisions to replies of Fastify; for its plugin, and for Nest on Fastify. */
import { type FlatHeaders, type HttpResponse, PROBLEM_TYPE } from '@sluice/core'
import type { FastifyReply } from 'fastify'

/**
 * Names in lower case, as Fastify keeps and sends them. A name that it has to change first is a new
 * text for every reply, which makes setting it several times as slow.
 */
const lowerCaseNames = new Map<string, string>()

export function setReplyHeaders(reply: FastifyReply, headers: FlatHeaders): void {
  for (let i = 0; i < headers.length; i += 2) {
    reply.header(lowerCaseName(headers[i] ?? ''), headers[i + 1])
  }
}

function lowerCaseName(name: string): string {
  const known = lowerCaseNames.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  lowerCaseNames.set(name, lower)
  return lower
}

/** Sends the body of a refusal whose status and headers are set. */
export function sendProblem(reply: FastifyReply, { body }: HttpResponse): void {
  // As bytes, because Fastify adds a charset to the type of texts.
  reply.type(PROBLEM_TYPE).send(new TextEncoder().encode(body))
}
