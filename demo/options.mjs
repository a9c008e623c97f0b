/** Reads and checks options that the demos have in common. */
import { createConnection } from 'node:net'

export function readNumber(name, text, least, most, isWhole) {
  const value = Number(text)
  const isGood = text.trim() !== '' && value >= least && value <= most
  if (isGood && (!isWhole || Number.isInteger(value))) return value
  const kind = isWhole ? 'a whole number' : 'a number'
  throw new Error(`${name}: found ${text}; accepted: ${kind} from ${least} to ${most}`)
}

/** Checked before anything starts, because the server's own message does not name the option. */
export async function requireFree(port) {
  if (port === 0) return
  const isTaken = await new Promise((resolve) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
  if (isTaken) throw new Error(`port ${port} is in use; choose another with --port`)
}
