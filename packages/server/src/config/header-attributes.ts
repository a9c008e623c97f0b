/** Lists the attributes that callers may set themselves. */
import type { Config } from './config.js'

/** The attributes that the configuration reads from a header, which any caller may send. */
export function headerAttributes({ identity }: Pick<Config, 'identity'>): ReadonlySet<string> {
  return new Set(identity.headers.map(({ attribute }) => attribute))
}
