import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { buildConnector, Pool } from 'undici'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { makePair } from '../http/certificates.test-helper.js'
import { startTestServer } from '../../serve.test-helper.js'
import { sendRequest, type Front, startFront } from './forward.test-helper.js'
import { ContinueRewriter, UnsolicitedContinues } from './unsolicited-continue.js'

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

const directory = mkdtempSync(join(tmpdir(), 'sluice-continue-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const open: { close(): Promise<unknown> }[] = []
afterEach(async () => {
  for (const part of open.splice(0)) await part.close()
})

interface RawUpstream {
  readonly origin: string
  /** The number of connections to it. */
  connections(): number
}

/** Answers each request head with these texts, one packet each. */
async function startRaw(packetsOf: (call: number) => readonly string[]): Promise<RawUpstream> {
  const sockets = new Set<Socket>()
  let connections = 0
  let calls = 0
  const server = createServer((socket) => {
    connections++
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (!/\r\n\r\n/.test(text)) return
      text = ''
      void writeApart(socket, packetsOf(calls++))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(resolve))
    },
  })
  const { port } = server.address() as AddressInfo
  return { origin: `http://127.0.0.1:${port}`, connections: () => connections }
}

async function writeApart(socket: Socket, packets: readonly string[]): Promise<void> {
  for (const packet of packets) {
    await new Promise((resolve) => socket.write(packet, 'latin1', resolve))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function startBefore(
  packetsOf: (call: number) => readonly string[],
): Promise<{ readonly front: Front; readonly raw: RawUpstream }> {
  const raw = await startRaw(packetsOf)
  const front = await startFront(() => {}, {
    upstream: { origin: raw.origin, connections: 1 },
    timeouts: { responseMs: 10_000 },
  })
  open.unshift(front)
  return { front, raw }
}

const answered = (status: number, text: string) => ({ status, text })
async function textOf(port: number, options: Parameters<typeof sendRequest>[1], body?: string) {
  const answer = await sendRequest(port, options, body)
  return answered(answer.status, answer.body.toString())
}

describe('an unsolicited 100 Continue of the upstream is dropped:', () => {
  const ways: readonly (readonly [string, readonly string[]])[] = [
    ['before the answer', [CONTINUE, OK]],
    ['in one packet with the answer', [CONTINUE + OK]],
    ['three times', [CONTINUE + CONTINUE, CONTINUE, OK]],
    ['with headers', ['HTTP/1.1 100 Continue\r\nServer: a\r\nX-Note: HTTP/1.1 100\r\n\r\n', OK]],
    ['without a reason phrase', ['HTTP/1.1 100 \r\n\r\n', OK]],
    ['cut into single bytes', [...CONTINUE.split(''), OK]],
    ['between other informational answers', ['HTTP/1.1 102 Processing\r\n\r\n', CONTINUE, OK]],
  ]
  test.each(ways)('%s', async (_name, packets) => {
    const { front, raw } = await startBefore(() => packets)
    expect(await textOf(front.port, { path: '/' })).toEqual(answered(200, 'ok'))
    const post = { path: '/', method: 'POST' }
    expect(await textOf(front.port, post, 'a body')).toEqual(answered(200, 'ok'))
    expect((await sendRequest(front.port, { path: '/', method: 'GET' })).rawHeaders).not.toContain(
      'X-Note',
    )
    expect(front.failures).toEqual([])
    // The connection is kept: no request was aborted and retried.
    expect(raw.connections()).toBe(1)
  })

  test('the client receives none of it', async () => {
    const { front } = await startBefore(() => [CONTINUE, OK])
    const information: number[] = []
    await new Promise((resolve, reject) => {
      const request = httpRequest({ host: '127.0.0.1', port: front.port, agent: false })
      request.on('information', ({ statusCode }) => information.push(statusCode))
      request.on('error', reject)
      request.on('response', (response) => response.resume().on('end', resolve))
      request.end()
    })
    expect(information).toEqual([])
  })

  test('a body that looks like one passes unchanged', async () => {
    const body = `${CONTINUE}HTTP/1.1 100 Continue`
    const sized = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`
    const { front } = await startBefore((call) =>
      call % 2 === 0 ? [CONTINUE, sized, body] : [sized + body],
    )
    for (let i = 0; i < 4; i++) {
      expect(await textOf(front.port, { path: '/' })).toEqual(answered(200, body))
    }
  })

  test('also before a 101 of a WebSocket', async () => {
    const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    const switching =
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`
    const raw = await startRaw(() => [CONTINUE + CONTINUE, switching, '\x81\x02hi'])
    const server = await startTestServer({ env: { SLUICE_UPSTREAM: raw.origin } })
    open.unshift(server)
    // Its key is random, so it accepts no fixed value; only the status is checked here.
    const socket = new WebSocket(`ws://127.0.0.1:${server.gatewayPort}/`)
    const status = await new Promise((resolve) => {
      socket.on('upgrade', (response) => resolve(response.statusCode))
      socket.on('unexpected-response', (_, response) => resolve(response.statusCode))
      socket.on('error', () => {})
    })
    socket.terminate()
    expect(status).toBe(101)
  })
})

describe('an upstream that keeps sending 100 Continue', () => {
  test('times out like one that sends nothing', async () => {
    const raw = await startRaw(() => Array.from({ length: 1000 }, () => CONTINUE))
    const front = await startFront(() => {}, {
      upstream: { origin: raw.origin },
      timeouts: { responseMs: 300 },
    })
    open.unshift(front)
    expect((await sendRequest(front.port, { path: '/' })).status).toBe(504)
  })
})

describe('the rewriter of unsolicited 100 Continue', () => {
  const SENT =
    `\r\n${CONTINUE}HTTP/1.1 103 Early Hints\r\nLink: <HTTP/1.1 100>\r\n\r\n` +
    `HTTP/1.1 100 \r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n${CONTINUE}`
  const READ =
    '\r\nHTTP/1.1 102 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <HTTP/1.1 100>\r\n\r\n' +
    `HTTP/1.1 102 \r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n${CONTINUE}`

  function rewritten(chunks: readonly string[], rewriter = new ContinueRewriter()): string {
    rewriter.expectAnswer()
    return chunks
      .map((text) => {
        const chunk = Buffer.from(text, 'latin1')
        rewriter.rewrite(chunk)
        return chunk.toString('latin1')
      })
      .join('')
  }

  test('changes the same bytes wherever the text is cut', () => {
    for (let cut = 0; cut <= SENT.length; cut++) {
      expect(rewritten([SENT.slice(0, cut), SENT.slice(cut)])).toBe(READ)
    }
    expect(rewritten(SENT.split(''))).toBe(READ)
  })

  test('changes nothing before a request is sent, and the next response after one is', () => {
    const rewriter = new ContinueRewriter()
    const early = Buffer.from(CONTINUE)
    rewriter.rewrite(early)
    expect(early.toString()).toBe(CONTINUE)
    expect(rewritten([OK], rewriter)).toBe(OK)
    expect(rewritten([CONTINUE], rewriter)).toBe('HTTP/1.1 102 Continue\r\n\r\n')
  })

  test.each([
    'HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/2.0 100 Continue\r\n\r\n',
    'HTTP/1.1  100 Continue\r\n\r\n',
    ' HTTP/1.1 100 Continue\r\n\r\n',
    'http/1.1 100 Continue\r\n\r\n',
    '',
  ])('leaves %j unchanged', (text) => {
    expect(rewritten([text])).toBe(text)
  })
})

test('an unsolicited 100 Continue is dropped on an encrypted connection too', async () => {
  const { cert, key } = makePair(directory, 'localhost')
  const server = createTlsServer({ cert, key }, (socket) => {
    socket.on('error', () => {})
    socket.on('data', () => socket.write(CONTINUE + OK))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({ close: () => new Promise((resolve) => server.close(resolve)) })
  const continues = new UnsolicitedContinues()
  const pool = new Pool(`https://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    connections: 1,
    connect: continues.wrap(buildConnector({ rejectUnauthorized: false })),
  })
  open.unshift({ close: () => pool.destroy() })
  for (let i = 0; i < 3; i++) {
    const { statusCode, body } = await pool.request({ method: 'POST', path: '/', body: 'a' })
    expect([statusCode, await body.text()]).toEqual([200, 'ok'])
  }
  continues.close()
})
