/** Writes decisions to replies of Fastify; for its plugin, and for Nest on Fastify. */
import { type FlatHeaders, type HttpResponse, PROBLEM_TYPE } from '@sluice/core'
import type { FastifyReply } from 'fastify'

export function setReplyHeaders(reply: FastifyReply, headers: FlatHeaders): void {
  for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] ?? '', headers[i + 1])
}

/** Sends the body of a refusal whose status and headers are set. */
export function sendProblem(reply: FastifyReply, { body }: HttpResponse): void {
  // As bytes, because Fastify adds a charset to the type of texts.
  reply.type(PROBLEM_TYPE).send(new TextEncoder().encode(body))
}
