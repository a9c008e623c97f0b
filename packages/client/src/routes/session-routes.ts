/** Sessions of browsers, which hold them in a cookie that no script can read. */
import type { Send } from '../send.js'
import type { SessionView } from '../api-types.js'

export function sessionRoutes(send: Send) {
  return {
    /** Begins one with a token. */
    login: (token: string) =>
      send({
        method: 'POST',
        has: 'csrf',
        path: '/session',
        body: { token },
      }) as Promise<SessionView>,

    /** Whose it is; 401 where there is none. */
    session: () => send({ method: 'GET', has: 'csrf', path: '/session' }) as Promise<SessionView>,

    /** Takes the cookie back. */
    logout: async (): Promise<void> => {
      await send({ method: 'DELETE', has: 'ended', path: '/session' })
    },
  }
}
