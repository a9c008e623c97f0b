/** Express with express-rate-limit and http-proxy-middleware, over kept connections. */
import { Agent, createServer } from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { createProxyMiddleware } from 'http-proxy-middleware'
import { KEY_HEADER, PEER_MAX, PEER_WINDOW_MS } from './calls.mjs'
import { listen } from './listen.mjs'

const app = express()
app.disable('x-powered-by')
app.disable('etag')
app.use(
  rateLimit({
    windowMs: PEER_WINDOW_MS,
    limit: PEER_MAX,
    // The cheapest of its standard headers: draft 8 hashes the key of every call.
    standardHeaders: 'draft-7',
    legacyHeaders: false,
    keyGenerator: (request) => request.headers[KEY_HEADER],
    // Checks of the configuration, which a user turns off once it is right.
    validate: false,
  }),
)
app.use(
  createProxyMiddleware({
    target: process.argv[2],
    agent: new Agent({ keepAlive: true, maxSockets: 256, maxFreeSockets: 256 }),
  }),
)
listen(createServer(app))
