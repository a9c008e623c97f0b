/**
 * A client such as @upstash/ratelimit wants, over ioredis: the few commands that it sends. Its
 * scripts begin with a flag that only the Redis of Upstash knows, so they go without.
 */
import { createHash } from 'node:crypto'

export function shimUpstash(client) {
  const shas = new Map()
  return {
    get: (key) => client.get(key),
    set: (key, value) => client.set(key, value),
    hset: (key, fields) => client.hset(key, fields),
    evalsha: (sha, keys, args) => {
      const known = shas.get(sha)
      if (known === undefined) return Promise.reject(new Error(`NOSCRIPT ${sha}`))
      return client.evalsha(known, keys.length, ...keys, ...args)
    },
    eval: (source, keys, args) => {
      const plain = source.replace(/^#!.*\n/, '')
      shas.set(sha1(source), sha1(plain))
      return client.eval(plain, keys.length, ...keys, ...args)
    },
  }
}

function sha1(text) {
  return createHash('sha1').update(text).digest('hex')
}
