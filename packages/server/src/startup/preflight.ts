/** Finds what would keep a server from starting, before anything is opened or written. */
import { type ParsedRules, parseRules, type RuleContext } from '@sluice/core'
import type { WallClock } from '../lib/wall-clock.js'
import type { ClientTlsFiles, Config } from '../config/config.js'
import { ruleContextOf } from '../config/rule-context.js'
import { readPem } from '../lib/read-pem.js'
import { readWholeFile } from '@sluice/limiter/internal'
import { readCertificatePair } from '../entrypoints/http/certificates.js'
import { createTokenVerifier } from '../identity/jwt/token-verifier.js'
import { messageOf } from '../lib/message-of.js'
import { prepareConnection } from '../rules/store/postgres/connection-settings.js'

export interface Preflight {
  /** One message for each problem. */
  readonly problems: readonly string[]
  /** The rules file; undefined if there are problems, or rules are in a rule store. */
  readonly rules: RulesFileContent | undefined
}

/** Reads every file that the configuration names; opens no connection. */
export async function preflight(config: Config, clock: WallClock): Promise<Preflight> {
  const { gateway, api, envoy, identity, redis, database } = config
  let rules: RulesFileContent | undefined
  const messages = await Promise.all([
    messagesOf('rules', async () => {
      rules = await readRules(config)
      return rules?.parsed.errors.map(({ message }) => message)
    }),
    messagesOf(
      'gateway.tls',
      async () => void (gateway.tls && (await readCertificatePair(gateway.tls))),
    ),
    messagesOf('api.tls', async () => void (api.tls && (await readCertificatePair(api.tls)))),
    messagesOf('envoy.tls', async () => void (envoy.tls && (await readCertificatePair(envoy.tls)))),
    messagesOf('envoy.xds.tls', () => readPemIf(envoy.xds?.tls)),
    messagesOf('redis.tls', () => readPemIf(redis?.tls)),
    messagesOf('database', async () => void (database && (await prepareConnection(database)))),
    messagesOf('identity.jwt', async () => {
      const { jwt, ipv6Prefix } = identity
      if (jwt === undefined) return
      await (await createTokenVerifier({ config: jwt, ipv6Prefix, clock })).close()
    }),
  ])
  const problems = messages.flat()
  return { problems, rules: problems.length === 0 ? rules : undefined }
}

export interface RulesFileContent {
  readonly file: string
  readonly text: string
  readonly parsed: ParsedRules
  /** @default nothing is known of this node */
  readonly ruleContext?: RuleContext | undefined
}

/** Reads the rules file, if one is configured. */
export async function readRules(config: Config): Promise<RulesFileContent | undefined> {
  const { rules: file } = config
  if (file === undefined) return undefined
  const { text } = await readWholeFile(file)
  const ruleContext = ruleContextOf(config)
  return { file, text, ruleContext, parsed: parseRules(text, { ...ruleContext, file }) }
}

async function readPemIf(files: ClientTlsFiles | undefined): Promise<void> {
  if (files !== undefined) await readPem(files)
}

/** Reports a file that cannot be used under the field that names it. */
async function messagesOf(
  field: string,
  check: () => Promise<readonly string[] | undefined | void>,
): Promise<readonly string[]> {
  try {
    return (await check()) ?? []
  } catch (error) {
    return [`${field}: ${messageOf(error)}`]
  }
}
