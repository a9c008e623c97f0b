const BEARER = /^bearer +/i

/** The token of an `Authorization: Bearer` value; undefined for another scheme and without one. */
export function bearerToken(authorization: string): string | undefined {
  const scheme = BEARER.exec(authorization)?.[0]
  return scheme === undefined ? undefined : authorization.slice(scheme.length) || undefined
}
