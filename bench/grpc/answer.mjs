/** A RateLimitResponse that allows the call. */
export const ANSWER = Buffer.from([8, 1])
