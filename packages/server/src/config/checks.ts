/** What must hold between settings that are each good by themselves. */
import type { Cidr } from '@sluice/core'
import { complain, type Spot } from '@sluice/core/reading'
import type { ListenAddress } from './config.js'
import type { Setting } from './fields.js'
import { formatListen, isClash, isLoopback } from './listen.js'

export interface Whole {
  readonly gatewayListen: Setting<ListenAddress>
  readonly apiListen: Setting<ListenAddress>
  readonly apiToken: Setting<string | undefined>
  readonly adminListen: Setting<ListenAddress>
  readonly adminToken: Setting<string | undefined>
  readonly workers: Setting<number>
  readonly redisUrl: Setting<string | undefined>
  readonly databaseUrl: Setting<string | undefined>
  readonly rules: Setting<string | undefined>
  readonly trustedProxies: Setting<readonly Cidr[]>
  readonly proxyHeaders: Spot | undefined
}

export function checkWhole(whole: Whole): void {
  requireToken(whole.apiListen, whole.apiToken, {
    sources: 'SLUICE_API_TOKEN or api.tokenFile',
    why: "anyone could spend anyone's budget",
  })
  requireToken(whole.adminListen, whole.adminToken, {
    sources: 'SLUICE_ADMIN_TOKEN or admin.tokenFile',
    why: 'nobody elsewhere could know the one that is made at the start',
  })
  refuseSameToken(whole)
  refuseClashes(whole)
  refuseWorkers(whole)
  refuseTwoSources(whole)
  requireProxies(whole)
}

function requireToken(
  listen: Setting<ListenAddress>,
  token: Setting<string | undefined>,
  { sources, why }: { readonly sources: string; readonly why: string },
): void {
  if (listen.spot === undefined || !listen.isRead || isLoopback(listen.value.host)) return
  if (token.value !== undefined || !token.isRead) return
  const accepted = `a loopback address; without ${sources} only loopback is allowed: ${why}`
  complain(listen.spot, 'bad-value', { accepted })
}

/** A token that is made at the start is drawn at random, and so never the same. */
function refuseSameToken({ apiToken, adminToken }: Whole): void {
  if (adminToken.spot === undefined || adminToken.value === undefined) return
  if (adminToken.value !== apiToken.value) return
  const why = 'who may ask for decisions may not administer'
  const accepted = `another one than that of the API; ${why}`
  complain(adminToken.spot, 'duplicate-value', { found: 'the token', accepted })
}

/** Told of at the later of two, or at the one that was written. */
function refuseClashes({ gatewayListen, apiListen, adminListen }: Whole): void {
  const doors = [
    { name: 'the gateway', listen: gatewayListen },
    { name: 'the API', listen: apiListen },
    { name: 'admin', listen: adminListen },
  ]
  for (const [index, later] of doors.entries()) {
    const earlier = doors
      .slice(0, index)
      .find(({ listen }) => listen.isRead && isClash(listen.value, later.listen.value))
    if (earlier === undefined || !later.listen.isRead) continue
    const [own, other] = later.listen.spot === undefined ? [earlier, later] : [later, earlier]
    if (own.listen.spot === undefined) continue
    const accepted = `another port than ${other.name} has, ${formatListen(other.listen.value)}`
    complain(own.listen.spot, 'duplicate-value', { accepted })
  }
}

function refuseWorkers({ workers: { value, spot }, redisUrl }: Whole): void {
  if (spot === undefined || value === 1) return
  if (redisUrl.value !== undefined || !redisUrl.isRead) return
  complain(spot, 'bad-value', {
    accepted:
      '1 while counters live in memory; each process would count for itself, ' +
      `and together they would admit ${value} times the limit`,
  })
}

/** Told of at the URL: whoever has both most likely added it to a file that had rules. */
function refuseTwoSources({ rules, databaseUrl }: Whole): void {
  if (rules.spot === undefined || databaseUrl.spot === undefined) return
  if (!rules.isRead || !databaseUrl.isRead) return
  complain(databaseUrl.spot, 'bad-value', {
    found: `beside ${rules.spot.field}`,
    accepted:
      'one of the two: SLUICE_DATABASE_URL or database.url for rules in Postgres, ' +
      'SLUICE_RULES or rules for a file that is the only authority',
  })
}

function requireProxies({ proxyHeaders, trustedProxies }: Whole): void {
  if (proxyHeaders === undefined || !trustedProxies.isRead) return
  if (trustedProxies.value.length > 0) return
  complain(proxyHeaders, 'missing-field', {
    field: 'trustedProxies',
    found: 'nothing',
    accepted:
      'the networks of the proxies that set identity.proxyHeaders, here or in ' +
      'SLUICE_TRUSTED_PROXIES; without them nobody would be believed',
  })
}
