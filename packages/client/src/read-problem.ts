/** Reads error responses. */
import type { ApiName, ProblemFields } from './errors.js'
import type { ProblemView } from './api-types.js'

const SHOWN_MAX = 200

/** The fields of the error that an error response becomes. */
export function problemOf(
  api: ApiName,
  base: string,
  response: Response,
  text: string,
): ProblemFields {
  const { status, type } = response
  // A browser reports a redirect that it did not follow, and hides its status.
  if (type === 'opaqueredirect' || (status >= 300 && status < 400)) {
    const detail = `${base} answered with a redirect, which is not followed. Name the address it leads to, if you trust it`
    return { status, code: 'unexpected', detail }
  }
  const body = bodyOf(text)
  if (body === undefined) {
    const start = text.slice(0, SHOWN_MAX).trim()
    const shown = start === '' ? '' : ` (${start})`
    const detail = noAnswerText(api, `${base} answered ${status}${shown}, which`)
    return { status, code: 'unexpected', detail }
  }
  return { ...fieldsOf(body), status }
}

/** Whether a value is a problem, such as one item of a list; if so, its fields. */
export function problemIn(value: unknown): ProblemFields | undefined {
  if (!isRecord(value) || !hasError(value)) return undefined
  const { status } = value
  return { ...fieldsOf(value), status: typeof status === 'number' ? status : 0 }
}

/** Says that what answers at the address is another server. */
export function noAnswerText(api: ApiName, found: string): string {
  return `${found} is no answer of the ${api} API. Is this the ${api} listener of Sluice?`
}

function fieldsOf({ error, detail, title, version, errors }: Body): Omit<ProblemFields, 'status'> {
  return {
    code: error,
    detail: typeof detail === 'string' ? detail : typeof title === 'string' ? title : error,
    version: typeof version === 'number' ? version : undefined,
    errors: Array.isArray(errors) ? errors.filter(isProblem) : [],
  }
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
