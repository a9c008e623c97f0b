/** Converts an error response to an error. */
import { AdminError } from './errors.js'
import type { ProblemView } from './api-types.js'

const SHOWN_MAX = 200

export function errorOf(base: string, response: Response, text: string): AdminError {
  const { status, type } = response
  // A browser reports a redirect that it did not follow, and hides its status.
  if (type === 'opaqueredirect' || (status >= 300 && status < 400)) {
    const detail = `${base} answered with a redirect, which is not followed. Name the address it leads to, if you trust it`
    return new AdminError({ status, code: 'unexpected', detail })
  }
  const body = bodyOf(text)
  if (body === undefined) {
    const start = text.slice(0, SHOWN_MAX).trim()
    const detail = `${base} answered ${status}${start === '' ? '' : ` (${start})`}, which is no answer of the admin API. Is this the admin listener of Sluice?`
    return new AdminError({ status, code: 'unexpected', detail })
  }
  const { error, detail, title, version, errors } = body
  return new AdminError({
    status,
    code: error,
    detail: typeof detail === 'string' ? detail : typeof title === 'string' ? title : error,
    version: typeof version === 'number' ? version : undefined,
    errors: Array.isArray(errors) ? errors.filter(isProblem) : [],
  })
}

type Body = Readonly<Record<string, unknown>> & { readonly error: string }

function bodyOf(text: string): Body | undefined {
  const value = jsonOf(text)
  return isRecord(value) && hasError(value) ? value : undefined
}

function hasError(value: Readonly<Record<string, unknown>>): value is Body {
  return typeof value['error'] === 'string'
}

function isProblem(value: unknown): value is ProblemView {
  return isRecord(value) && typeof value['message'] === 'string'
}

/** Undefined if it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
