/** Reads `INFO` of Redis, Valkey and compatible servers, as far as the store needs it. */
import { SluiceError } from '@sluice/core'
import { type RunCommand, textOf } from '../connection/run-command.js'

export interface StoreInfo {
  /** `Redis 7.0.15`, `Valkey 8.1.0`. */
  readonly version: string
  /** The version of Redis it is compatible with; NaN if it does not say. */
  readonly major: number
  readonly isReplica: boolean
  readonly isCluster: boolean
  readonly replicas: number
  /** Undefined if it does not say. */
  readonly evictionPolicy: string | undefined
  readonly usedBytes: number
  /** 0 for no bound. */
  readonly maxBytes: number
  readonly evictedKeys: number
  /** In all databases, because Sluice is meant to have its own Redis. */
  readonly keys: number
  readonly aof: boolean
  /** Whether it has forked for a snapshot since it started, as far as INFO shows. */
  readonly hasSnapshot: boolean
}

export async function fetchInfo(run: RunCommand): Promise<StoreInfo> {
  const text = textOf(await run(['INFO']))
  if (text === undefined || !text.includes('redis_version:')) {
    throw new SluiceError('STORE_UNFIT', 'The server does not reply to INFO like Redis')
  }
  return parseInfo(text)
}

export function parseInfo(text: string): StoreInfo {
  const fields = new Map<string, string>()
  let keys = 0
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':')
    if (colon === -1) continue
    const name = line.slice(0, colon)
    const value = line.slice(colon + 1).trim()
    if (/^db\d+$/.test(name)) keys += Number(/keys=(\d+)/.exec(value)?.[1] ?? 0)
    else fields.set(name, value)
  }
  const count = (name: string) => Number(fields.get(name) ?? 0) || 0
  const redisVersion = fields.get('redis_version') ?? ''
  const valkeyVersion = fields.get('valkey_version')
  return {
    version: valkeyVersion === undefined ? `Redis ${redisVersion}` : `Valkey ${valkeyVersion}`,
    major: Number.parseInt(redisVersion, 10),
    isReplica: fields.get('role') === 'slave' || fields.get('role') === 'replica',
    isCluster: count('cluster_enabled') === 1,
    replicas: count('connected_slaves'),
    evictionPolicy: fields.get('maxmemory_policy'),
    usedBytes: count('used_memory'),
    maxBytes: count('maxmemory'),
    evictedKeys: count('evicted_keys'),
    keys,
    aof: count('aof_enabled') === 1,
    hasSnapshot:
      count('rdb_saves') > 0 ||
      count('rdb_bgsave_in_progress') === 1 ||
      Number(fields.get('rdb_last_bgsave_time_sec') ?? -1) >= 0,
  }
}
