/**
 * A server whose handler keeps the event loop busy, with one subject before it: Express, or Fastify
 * for the one that needs it. Arguments: the subject, the work of a call, the delay that it aims at.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { listen } from '../gateway/listen.mjs'
import { CLASSIFIED } from './setting.mjs'

const require = createRequire(import.meta.url)
const [, , name, rounds, delay] = process.argv
const ROUNDS = Number(rounds)
const delayMs = Number(delay)
/** A server in overload has many connections to accept at once. */
const BACKLOG = 4096

/** The same work for every call and every subject, whatever the time. */
function work() {
  const hash = createHash('sha256')
  for (let i = 0; i < ROUNDS; i++) hash.update('what a handler computes')
  return hash.digest('hex')
}

const subjects = {
  Sluice: async (app) => {
    const { sluice } = await import('../../packages/limiter/dist/middleware/express.js')
    const { loopLoad } = await import('../../packages/limiter/dist/middleware/node.js')
    const shed = { loop: `${delayMs}ms`, keep: ['critical'] }
    app.use(
      sluice({
        rules: { ...CLASSIFIED, shed, rules: [] },
        load: loopLoad().load,
        attributes: (request) => ({ user: request.headers['x-user'] }),
        shedStatus: 503,
      }),
    )
  },
  'overload-protection': async (app) =>
    app.use(require('overload-protection')('express', { maxEventLoopDelay: delayMs })),
  'toobusy-js': async (app) => {
    const toobusy = require('toobusy-js')
    toobusy.maxLag(delayMs)
    toobusy.interval(100)
    app.use((_request, response, next) => (toobusy() ? response.status(503).send('busy') : next()))
  },
  'no protection': async () => {},
}

async function startExpress() {
  const { default: express } = await import('express')
  const app = express()
  await subjects[name](app)
  app.get('/:priority', (_request, response) => response.send(work()))
  listen(createServer(app), BACKLOG)
}

async function startFastify() {
  const { default: fastify } = await import('fastify')
  const { default: underPressure } = await import('@fastify/under-pressure')
  const serverFactory = (handler) => createServer(handler)
  const app = fastify({ serverFactory })
  await app.register(underPressure, { maxEventLoopDelay: delayMs, sampleInterval: 100 })
  app.get('/:priority', async () => work())
  await app.ready()
  listen(app.server, BACKLOG)
}

if (name === 'under-pressure') await startFastify()
else await startExpress()
