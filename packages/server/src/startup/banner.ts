/** The text printed when a server has started: where it listens, and what to try. */
import type { StoredSecret } from './stored-secrets.js'
import { EXAMPLE_KEYS } from './example.js'
import { ADMIN_URL } from '../find-admin.js'
import type { MissingRules, RunningServer } from '../serve.js'

export interface BannerOptions {
  /** Whether the output is a terminal; only there is a token shown. */
  readonly isTerminal: boolean
}

export function bannerOf(server: RunningServer, { isTerminal }: BannerOptions): string {
  const { gateway, api, grpc, admin, adminToken, upstream, rules, store } = server
  const { isExample, missingRules } = server
  const token = tokenLine(adminToken, isTerminal)
  const lines = [
    'Sluice is running.',
    '',
    `  gateway        ${gateway}  ->  ${upstream}`,
    `  decision API   ${api}`,
    `  Envoy gRPC     ${grpc}`,
    `  dashboard      ${admin}/`,
    `  admin API      ${admin}/admin/v1/`,
    `  metrics        ${admin}/metrics`,
    `  admin token    ${token}`,
    `  rules          ${rules}`,
    `  counters       ${store}`,
  ]
  if (missingRules !== undefined)
    return [...lines, ...noRulesLines(server, missingRules)].join('\n')
  return [...lines, ...(isExample ? exampleLines(server) : []), ''].join('\n')
}

function noRulesLines(
  { admin, api, adminToken }: RunningServer,
  { file }: MissingRules,
): readonly string[] {
  const state = [
    '',
    'No rules: every call is allowed, and nothing is limited.',
    `${api}/readyz answers 503 "no rules" until there is one (or set allowNoRules: true).`,
  ]
  if (file !== undefined) return [...state, `Write the first into ${file}; it is read at once.`, '']
  return [
    ...state,
    '',
    '  # the first rule, or a whole set, from another terminal',
    ruleLine(admin, adminToken),
    `  npx sluice rules apply -f rules.yaml${urlOption(admin)}`,
    '',
  ]
}

function tokenLine({ text, file, state }: StoredSecret, isTerminal: boolean): string {
  if (state === 'configured') return 'as given'
  if (file !== undefined) return isTerminal ? `${text}  (kept in ${file})` : `in ${file}`
  return isTerminal ? `${text}  (not kept)` : 'made, but not kept; set SLUICE_ADMIN_TOKEN'
}

/** How to change rules at run time. */
function changeLines(admin: string, token: StoredSecret): readonly string[] {
  const at = urlOption(admin)
  return [
    '',
    '  # a rule of your own, in force at once; and away with it',
    ruleLine(admin, token),
    `  npx sluice rules list${at}; npx sluice rules delete mine${at}`,
  ]
}

function ruleLine(admin: string, { file }: StoredSecret): string {
  const token = file === undefined ? '$SLUICE_ADMIN_TOKEN' : `$(cat ${file})`
  const rule = `{"id":"mine","by":["ip"],"limits":["3/minute"]}`
  return `  curl -s -H "Authorization: Bearer ${token}" ${admin}/admin/v1/rules -d '${rule}'`
}

function urlOption(admin: string): string {
  return admin === ADMIN_URL ? '' : ` --url ${admin}`
}

/** Commands to paste, each with what it shows. */
function exampleLines(server: RunningServer): readonly string[] {
  const { gateway, api, admin, adminToken } = server
  const [ann] = EXAMPLE_KEYS
  const show = `| grep -iE '^HTTP|remaining|retry'`
  return [
    '',
    'Try, in another terminal:',
    '',
    '  # a user of the free plan has 10 calls a second: 200 with less and less left, then 429',
    `  curl -s -D - -o /dev/null -H 'X-Api-Key: ${ann?.key}' '${gateway}/v1/orders/[1-30]' ${show}`,
    '',
    '  # 5 logins in 5 minutes from one address, then 429 with Retry-After and the reason',
    `  for i in $(seq 6); do curl -si -X POST ${gateway}/v1/login | grep -iE '^HTTP|ratelimit|retry|detail'; done`,
    '',
    '  # what this caller has left, without spending any of it',
    `  curl -s -H 'X-Api-Key: ${ann?.key}' ${gateway}/_sluice/limits`,
    '',
    '  # the same rules as a decision for your own code, and why it was made',
    `  curl -s ${api}/v1/check -d '{"attributes":{"user":"bob","method":"GET","path":"/v1/orders/7"}}'`,
    `  curl -s ${api}/v1/explain -d '{"attributes":{"user":"bob","method":"POST","path":"/v1/invoices"}}'`,
    '',
    '  # the same as a proxy built on Envoy asks it, over gRPC or with curl',
    `  curl -s ${api}/json -d '{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"bob"},{"key":"path","value":"/v1/orders/7"}]}]}'`,
    '',
    '  # how many decisions each rule made',
    `  curl -s ${admin}/metrics | grep decisions`,
    ...changeLines(admin, adminToken),
    '',
    'Ctrl-C stops it. Rules stay as you change them. Your own service: SLUICE_UPSTREAM=http://...',
  ]
}
