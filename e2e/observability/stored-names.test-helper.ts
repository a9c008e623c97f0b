/** Searches for texts in everything that nodes store: a whole Redis, and all files of a folder. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { inflateRawSync } from 'node:zlib'
import type { RedisServer } from '../../tools/redis/server.mjs'

/** A stored value and its location. */
interface Stored {
  readonly place: string
  readonly text: string
}

/** Larger node snapshots are not unpacked. */
const UNPACKED_BYTES_MAX = 16 * 1024 * 1024

const READ: Readonly<Record<string, (key: string) => readonly string[]>> = {
  string: (key) => ['GET', key],
  hash: (key) => ['HGETALL', key],
  zset: (key) => ['ZRANGE', key, '0', '-1', 'WITHSCORES'],
  set: (key) => ['SMEMBERS', key],
  list: (key) => ['LRANGE', key, '0', '-1'],
}

export async function storedInRedis(redis: RedisServer): Promise<readonly Stored[]> {
  const keys = (await redis.cli('KEYS', '*')).split('\n')
  const stored: Stored[] = []
  for (const key of keys) {
    const type = await redis.cli('TYPE', key)
    const read = READ[type]
    // A type that this test cannot read proves nothing.
    if (read === undefined) throw new Error(`${key} is a ${type}`)
    stored.push({ place: `redis ${key}`, text: `${key}\n${await redis.cli(...read(key))}` })
  }
  return stored
}

export function storedInFolder(folder: string): readonly Stored[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(folder, name)).isFile())
    .map((name) => ({ place: name, text: readFileSync(join(folder, name), 'latin1') }))
}

/** The locations that contain one of the texts, plain, compressed, or encoded as hex or base64. */
export function placesOf(texts: readonly string[], all: readonly Stored[]): readonly string[] {
  const spellings = texts.flatMap(spellingsOf)
  return all
    .filter(({ text }) => {
      const readings = [text, ...text.split(/[\s"]+/).map(unpacked)]
      return readings.some((reading) => spellings.some((spelling) => reading.includes(spelling)))
    })
    .map(({ place }) => place)
}

function spellingsOf(text: string): readonly string[] {
  const hex = Buffer.from(text).toString('hex')
  // The base64 of a text within another depends on its offset.
  const base64 = [0, 1, 2].map((before) => {
    const whole = Buffer.from('x'.repeat(before) + text).toString('base64')
    return whole.slice(before === 0 ? 0 : 4, -4)
  })
  return [text, hex, hex.toUpperCase(), ...base64, ...base64.map(toUrlForm)]
}

function toUrlForm(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_')
}

/** A node snapshot is JSON, deflated, as base64; returns an empty text for anything else. */
function unpacked(word: string): string {
  try {
    const bytes = Buffer.from(word, 'base64')
    return inflateRawSync(bytes, { maxOutputLength: UNPACKED_BYTES_MAX }).toString('latin1')
  } catch {
    return ''
  }
}
