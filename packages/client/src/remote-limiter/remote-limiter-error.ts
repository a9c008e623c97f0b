/** The error of the remote limiter. */

/**
 * The call, the receipt or an option is invalid, a refund failed, or the limiter is closed. A
 * server that does not answer is no error of a call: its posture decides.
 */
export class RemoteLimiterError extends Error {
  /** A code of docs/reference/errors.md, or of a problem of the decision API. */
  readonly code: string
  /** As of the HTTP response that would say so. */
  readonly status: number

  constructor(code: string, status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RemoteLimiterError'
    this.code = code
    this.status = status
  }
}
