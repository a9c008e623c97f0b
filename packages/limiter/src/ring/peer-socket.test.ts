import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { wordsCommand } from '../redis/connection/run-command.js'
import type { Settle } from '../redis/connection/socket.js'
import { peerSockets } from './peer-socket.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const COMMANDS = 5000

test('a connection that always waits for some reply keeps nothing of what was answered', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-peer-'))
  const path = join(folder, 'a.sock')
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    // The reply to the last command never comes.
    socket.once('data', () => socket.write(':1\r\n'.repeat(COMMANDS - 1)))
  })
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  const answered: WeakRef<Settle>[] = []
  let sendAll = () => {}
  const connection = peerSockets()({ path }, { opened: () => sendAll(), ended: () => {} })
  await new Promise<void>((resolve) => {
    sendAll = () => {
      for (let n = 0; n < COMMANDS; n++) {
        const settle: Settle = () => {
          if (n === COMMANDS - 2) setImmediate(resolve)
        }
        answered.push(new WeakRef(settle))
        connection.send([wordsCommand(['PING'])], settle)
      }
    }
  })
  await new Promise((resolve) => {
    setTimeout(resolve, 0)
  })
  gc()
  const kept = answered.filter((each) => each.deref() !== undefined)
  expect(kept.length).toBeLessThan(COMMANDS / 2)
  connection.destroy()
  for (const socket of sockets) socket.destroy()
  server.close()
  rmSync(folder, { recursive: true, force: true })
})
