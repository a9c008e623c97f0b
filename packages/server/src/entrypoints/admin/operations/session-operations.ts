/** Browser sessions: started with a token, kept in a cookie, ended by logout. */
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
/** Room for a token in JSON: the sender is not authenticated yet. */
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
    summary: 'Start a browser session with a token',
    description:
      'Sets a cookie that scripts cannot read. The session ends after 12 hours, or with the token.',
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
        if (passed !== undefined)
          log.warn({ address, ...passed }, 'admin login rejected: invalid token')
        throw unauthorized()
      }
      const own = limits.checkCall(principal.id, false)
      log.info({ holder: principal.name, address: sender.address }, 'admin session started')
      const seconds = (started.session.expiresAtMs - clock.now()) / 1000
      const cookie = setCookie(started.value, seconds, sender.isEncrypted)
      const headers = { ...own, 'Set-Cookie': cookie }
      return { status: 200, body: viewSession(started.session), headers }
    },
  })
}

/** Over plain HTTP others could read the token and the cookie. */
function requireEncrypted({ isEncrypted, isLoopback, host }: Sender): void {
  if (isEncrypted || isLoopback) return
  throw new AdminError(
    'not_encrypted',
    `Sessions need an encrypted connection, and http://${show(host)} is not. Use https:// through a proxy in front of the admin listener, or a loopback address, for example with ssh -L 9090:127.0.0.1:9090.`,
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
  summary: 'Read the current session',
  role: 'read',
  answers: [{ status: 200, description: 'The session.', schema: sessionView }],
  run({ sender: { session } }) {
    if (session !== undefined) return { status: 200, body: viewSession(session) }
    throw new AdminError('not_found', 'This request came with a token and has no session.')
  },
})

const logout = operation({
  method: 'delete',
  path: SESSION_PATH,
  id: 'endSession',
  tag,
  summary: 'End the session of this browser',
  description: 'Removes the cookie. To end the session everywhere, revoke its token.',
  role: 'read',
  answers: [{ status: 200, description: 'The cookie is removed.', schema: sessionEnded }],
  run: ({ sender }) => ({
    status: 200,
    body: { ended: true },
    headers: { 'Set-Cookie': setCookie('', 0, sender.isEncrypted) },
  }),
})
