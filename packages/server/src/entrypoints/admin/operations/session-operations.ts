/** Sessions of browsers: begun with a token, held in a cookie, ended by whoever holds them. */
import { show } from '@sluice/core'
import { createThrottle } from '../../../observability/log/throttle.js'
import type { AuthenticatorDeps, Sender } from '../authenticate.js'
import { checkedBody, operation, type Operation } from '../operation.js'
import { AdminError, unauthorized } from '../admin-error.js'
import { sessionEnded, sessionInput, sessionView } from '@sluice/api'
import { type Session, setCookie } from '../sessions.js'
import { BASE } from './operation-helpers.js'

const tag = 'Sessions'
export const SESSION_PATH = `${BASE}/session`
/** A token, and what JSON needs around it: nobody is known yet. */
const BODY_BYTES_MAX = 8 * 1024

export function sessionOperations(deps: AuthenticatorDeps): readonly Operation[] {
  return [login(deps), getSession, logout]
}

function login({ tokenAuthenticator, sessions, limits, clock, log }: AuthenticatorDeps): Operation {
  const throttle = createThrottle(clock)
  return operation({
    method: 'post',
    path: SESSION_PATH,
    id: 'beginSession',
    tag,
    summary: 'Begin a session of a browser with a token',
    description:
      'Answers a cookie that no script can read; it ends after 12 hours, or with the token.',
    role: 'read',
    isOpen: true,
    body: checkedBody(sessionInput, BODY_BYTES_MAX),
    answers: [{ status: 200, description: 'The session.', schema: sessionView }],
    run({ body: { token }, sender }) {
      requireEncrypted(sender)
      const principal = tokenAuthenticator.principalOf(`Bearer ${token}`)
      const started = principal && sessions.begin(principal.id)
      if (principal === undefined || started === undefined) {
        const { address } = sender
        limits.recordFailure(address)
        const passed = throttle.pass('login')
        if (passed !== undefined) log.warn({ address, ...passed }, 'a login without a good token')
        throw unauthorized()
      }
      const own = limits.checkCall(principal.id, false)
      log.info({ principal: principal.name, address: sender.address }, 'a session began')
      const seconds = (started.session.expiresAtMs - clock.now()) / 1000
      const cookie = setCookie(started.value, seconds, sender.isEncrypted)
      const headers = { ...own, 'Set-Cookie': cookie }
      return { status: 200, body: viewSession(started.session), headers }
    },
  })
}

/** A browser would not keep the cookie, or would send it where anybody can read it. */
function requireEncrypted({ isEncrypted, isLoopback, host }: Sender): void {
  if (isEncrypted || isLoopback) return
  throw new AdminError(
    'not_encrypted',
    `session: found http://${show(host)}, where anybody on the way can read the token; accepted: https:// by a proxy in front of the admin listener, or a loopback address, as over ssh -L 9090:127.0.0.1:9090`,
  )
}

function viewSession({ principal, expiresAtMs, csrf }: Session) {
  const expiresAt = new Date(expiresAtMs).toISOString()
  return { name: principal.name, role: principal.role, expiresAt, csrf }
}

const getSession = operation({
  method: 'get',
  path: SESSION_PATH,
  id: 'getSession',
  tag,
  summary: 'Say whose session this is',
  role: 'read',
  answers: [{ status: 200, description: 'The session.', schema: sessionView }],
  run({ sender: { session } }) {
    if (session !== undefined) return { status: 200, body: viewSession(session) }
    throw new AdminError('not_found', 'session: found Authorization; accepted: the cookie of one')
  },
})

const logout = operation({
  method: 'delete',
  path: SESSION_PATH,
  id: 'endSession',
  tag,
  summary: 'Take the cookie of a session back',
  description: 'To end it everywhere, revoke its token.',
  role: 'read',
  answers: [{ status: 200, description: 'The browser has none any more.', schema: sessionEnded }],
  run: ({ sender }) => ({
    status: 200,
    body: { ended: true },
    headers: { 'Set-Cookie': setCookie('', 0, sender.isEncrypted) },
  }),
})
