/** Checks settings against each other, after each is valid by itself. */
import type { Cidr } from '@sluice/core'
import { reportAt, type Located } from '@sluice/core/config-reader'
import type { EnvoyServiceConfig, ListenAddress } from './config.js'
import type { Setting } from './fields.js'
import { formatListen, isClash } from './listen.js'
import { isLoopback } from '../lib/loopback.js'

export interface CheckedSettings {
  readonly gatewayListen: Setting<ListenAddress>
  readonly apiListen: Setting<ListenAddress>
  readonly apiToken: Setting<string | undefined>
  readonly grpcListen: Setting<ListenAddress>
  readonly envoy: Pick<EnvoyServiceConfig, 'tls' | 'insecure' | 'server'>
  readonly reflection: Setting<boolean>
  readonly adminListen: Setting<ListenAddress>
  readonly adminToken: Setting<string | undefined>
  readonly databaseUrl: Setting<string | undefined>
  readonly rules: Setting<string | undefined>
  readonly trustedProxies: Setting<readonly Cidr[]>
  readonly proxyHeaders: Located | undefined
}

export function checkSettings(settings: CheckedSettings): void {
  requireToken(settings.apiListen, settings.apiToken, {
    sources: 'SLUICE_API_TOKEN or api.tokenFile',
    why: "anyone could spend anyone's budget",
  })
  requireToken(settings.adminListen, settings.adminToken, {
    sources: 'SLUICE_ADMIN_TOKEN or admin.tokenFile',
    why: 'no other machine could know the one that is made at the start',
  })
  requireClientCertificates(settings)
  refuseReflection(settings)
  refuseSameToken(settings)
  refuseClashes(settings)
  refuseTwoSources(settings)
  requireProxies(settings)
}

function requireToken(
  listen: Setting<ListenAddress>,
  token: Setting<string | undefined>,
  { sources, why }: { readonly sources: string; readonly why: string },
): void {
  if (listen.located === undefined || !listen.isRead || isLoopback(listen.value.host)) return
  if (token.value !== undefined || !token.isRead) return
  const accepted = `a loopback address; without ${sources} only loopback is allowed: ${why}`
  reportAt(listen.located, 'bad-value', { accepted })
}

/** A client of the rate limit service can give back what callers used. */
function requireClientCertificates({ grpcListen: listen, envoy }: CheckedSettings): void {
  if (listen.located === undefined || !listen.isRead || isLoopback(listen.value.host)) return
  if (envoy.tls?.clientCa !== undefined || envoy.insecure) return
  const accepted =
    'a loopback address; without envoy.tls.clientCa or envoy.insecure: true only loopback is ' +
    "allowed: anyone could spend anyone's budget, and give it back"
  reportAt(listen.located, 'bad-value', { accepted })
}

/** Reflection is a stream, and our own server answers single messages. */
function refuseReflection({ reflection: { value, located }, envoy }: CheckedSettings): void {
  if (located === undefined || !value || envoy.server !== 'own') return
  const accepted = 'false with envoy.server: own, which has no streams; or envoy.server: grpc-js'
  reportAt(located, 'bad-value', { accepted })
}

/** A generated token is random, and so never equal to another. */
function refuseSameToken({ apiToken, adminToken }: CheckedSettings): void {
  if (adminToken.located === undefined || adminToken.value === undefined) return
  if (adminToken.value !== apiToken.value) return
  const why = 'who may ask for decisions may not administer'
  const accepted = `another one than that of the API; ${why}`
  reportAt(adminToken.located, 'duplicate-value', { found: 'the token', accepted })
}

/** Reported at the later of the two, or at the one that was written. */
function refuseClashes(settings: CheckedSettings): void {
  const { gatewayListen, apiListen, grpcListen, adminListen } = settings
  const listeners = [
    { name: 'the gateway', listen: gatewayListen },
    { name: 'the API', listen: apiListen },
    { name: 'the gRPC service', listen: grpcListen },
    { name: 'admin', listen: adminListen },
  ]
  for (const [index, later] of listeners.entries()) {
    const earlier = listeners
      .slice(0, index)
      .find(({ listen }) => listen.isRead && isClash(listen.value, later.listen.value))
    if (earlier === undefined || !later.listen.isRead) continue
    const [own, other] = later.listen.located === undefined ? [earlier, later] : [later, earlier]
    if (own.listen.located === undefined) continue
    const accepted = `another port than ${other.name} has, ${formatListen(other.listen.value)}`
    reportAt(own.listen.located, 'duplicate-value', { accepted })
  }
}

/** Reported at the URL, which was most likely added to a file that had rules. */
function refuseTwoSources({ rules, databaseUrl }: CheckedSettings): void {
  if (rules.located === undefined || databaseUrl.located === undefined) return
  if (!rules.isRead || !databaseUrl.isRead) return
  reportAt(databaseUrl.located, 'bad-value', {
    found: `beside ${rules.located.field}`,
    accepted:
      'one of the two: SLUICE_DATABASE_URL or database.url for rules in Postgres, ' +
      'SLUICE_RULES or rules for a file that is the only authority',
  })
}

function requireProxies({ proxyHeaders, trustedProxies }: CheckedSettings): void {
  if (proxyHeaders === undefined || !trustedProxies.isRead) return
  if (trustedProxies.value.length > 0) return
  reportAt(proxyHeaders, 'missing-field', {
    field: 'trustedProxies',
    found: 'nothing',
    accepted:
      'the networks of the proxies that set identity.proxyHeaders, here or in ' +
      'SLUICE_TRUSTED_PROXIES; without them no proxy would be believed',
  })
}
