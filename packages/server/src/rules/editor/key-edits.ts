/** Edits of API keys: register, change, revoke. */
import type { KeyDocument } from '../store/records.js'
import type { RuleStore } from '../store/rule-store.js'
import type { EditContext } from './edit-plan.js'
import type { Editor } from './editor.js'
import {
  makeKeyRecord,
  KEYS_PER_CALL_MAX,
  patchKeyDocument,
  readNewKeys,
} from './key-registration.js'
import { EditError, requireVersion } from './edit-errors.js'
import { deepEqual } from '../../lib/deep-equal.js'

/** Concurrent lookups of keys. */
const LOOKUPS_MAX = 50

type KeyEdits = Pick<Editor, 'createKeys' | 'patchKey' | 'removeKey'>

export function keyEdits({ commits, clock }: EditContext): KeyEdits {
  return {
    async createKeys(keys, meta) {
      const { store } = commits
      requireSome(keys.length)
      const registrations = readNewKeys(keys, (count) => commits.random(count))
      return commits.run(meta, async ({ keySecret }) => {
        if (keySecret === undefined) {
          const message = 'the secret of key hashes was not read from the rule store yet'
          throw new EditError('rules_unavailable', message)
        }
        const createdAt = new Date(clock.now()).toISOString()
        const records = registrations.map((key) => ({
          ...makeKeyRecord(key, keySecret, createdAt),
          key: key.generatedKey,
        }))
        await refuseKnown(store, records)
        return {
          changes: records.map(({ id, document }) => ({ kind: 'key', id, body: document })),
          result: (version) => records.map((key) => ({ ...key, version })),
        }
      })
    },

    async patchKey(id, patch, meta, expected) {
      const { store } = commits
      return commits.run(meta, async () => {
        const present = await requireKey(store, id)
        requireVersion(`key ${id}`, present.version, expected)
        const document = patchKeyDocument(present.document, patch)
        if (deepEqual(document, present.document)) {
          return { changes: [], result: () => ({ id, ...present, key: undefined }) }
        }
        return {
          changes: [{ kind: 'key', id, body: document }],
          result: (version) => ({ id, document, version, key: undefined }),
        }
      })
    },

    async removeKey(id, meta, expected) {
      const { store } = commits
      return commits.run(meta, async () => {
        const { version: present } = await requireKey(store, id)
        requireVersion(`key ${id}`, present, expected)
        return { changes: [{ kind: 'key', id, body: null }], result: (version) => version }
      })
    },
  }
}

function requireSome(count: number): void {
  if (count >= 1 && count <= KEYS_PER_CALL_MAX) return
  const accepted = `1 to ${KEYS_PER_CALL_MAX} at once`
  throw new EditError('key_invalid', `found ${count} keys; accepted: ${accepted}`)
}

/** Throws if a key is registered: its id is derived from its hash, so it is found by id. */
async function refuseKnown(store: RuleStore, keys: readonly { readonly id: string }[]) {
  for (let at = 0; at < keys.length; at += LOOKUPS_MAX) {
    const some = keys.slice(at, at + LOOKUPS_MAX)
    const found = await Promise.all(some.map(({ id }) => store.key(id)))
    const index = found.findIndex((key) => key !== undefined)
    if (index === -1) continue
    const message = `keys[${at + index}]: the key is registered already, as ${some[index]?.id}`
    throw new EditError('key_exists', message)
  }
}

async function requireKey(
  store: RuleStore,
  id: string,
): Promise<{ readonly document: KeyDocument; readonly version: number }> {
  const key = await store.key(id)
  if (key === undefined || key.body === null) {
    throw new EditError('key_unknown', `there is no key ${id}`)
  }
  return { document: key.body, version: key.version }
}
