/** A normalized call with plain attributes only, for tests. */
import type { Attributes, NormalizedCall } from '@sluice/core'

export function callWith(
  attributes: Attributes = {},
  more: Partial<NormalizedCall> = {},
): NormalizedCall {
  const plain = {
    method: undefined,
    path: undefined,
    address: undefined,
    route: undefined,
    priority: undefined,
  }
  const ip = attributes['ip']
  return { attributes, ...plain, ip: typeof ip === 'string' ? ip : undefined, ...more }
}
