/** Routes of browser sessions, which are held in a cookie that no script can read. */
import type { Send } from '../send.js'
import type { SessionView } from '../api-types.js'

export function sessionRoutes(send: Send) {
  return {
    /** Starts a session with a token. */
    login: (token: string) =>
      send({
        method: 'POST',
        has: 'csrf',
        path: '/session',
        body: { token },
      }) as Promise<SessionView>,

    /** Returns the principal of the session; 401 if there is none. */
    session: () => send({ method: 'GET', has: 'csrf', path: '/session' }) as Promise<SessionView>,

    /** Ends the session and removes its cookie. */
    logout: async (): Promise<void> => {
      await send({ method: 'DELETE', has: 'ended', path: '/session' })
    },
  }
}
