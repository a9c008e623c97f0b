/**
 * Which header fields the server reads. All others are measured, since they count towards limits
 * and the dynamic table, but no text is made of them.
 */

/** What a field is for. The names of metadata that handlers read follow from `metadata` on. */
export const Role = {
  other: 0,
  method: 1,
  scheme: 2,
  path: 3,
  authority: 4,
  contentType: 5,
  te: 6,
  contentLength: 7,
  timeout: 8,
  /** Belongs to one connection, which HTTP/2 does not allow in a request. */
  connectionSpecific: 9,
  /** A pseudo-header that requests do not have. */
  unknownPseudo: 10,
  /** A name or a value with bytes that it may not have. */
  malformed: 11,
  metadata: 12,
} as const

const KNOWN: readonly (readonly [name: string, role: number])[] = [
  [':method', Role.method],
  [':scheme', Role.scheme],
  [':path', Role.path],
  [':authority', Role.authority],
  ['content-type', Role.contentType],
  ['te', Role.te],
  ['content-length', Role.contentLength],
  ['grpc-timeout', Role.timeout],
  ['connection', Role.connectionSpecific],
  ['proxy-connection', Role.connectionSpecific],
  ['keep-alive', Role.connectionSpecific],
  ['transfer-encoding', Role.connectionSpecific],
  ['upgrade', Role.connectionSpecific],
]

/** The roles whose values are made into text. */
const HAS_VALUE: ReadonlySet<number> = new Set([
  Role.method,
  Role.path,
  Role.contentType,
  Role.te,
  Role.contentLength,
  Role.timeout,
])

export const hasValue = (role: number) => role >= Role.metadata || HAS_VALUE.has(role)

interface NameBytes {
  readonly bytes: Buffer
  readonly role: number
}

const COLON = 0x3a

/** The characters of a name, by RFC 9110 (token) without capitals, by RFC 9113. */
const IS_NAME_BYTE = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[a-z0-9!#$%&'*+.^_`|~-]/.test(String.fromCharCode(byte)) ? 1 : 0,
)

export class FieldNames {
  /** Names by their length: most names differ from all known ones in it. */
  readonly #byLength: (readonly NameBytes[] | undefined)[] = []

  /** @param metadata the names that handlers read, in lower case */
  constructor(metadata: readonly string[]) {
    for (const [name, role] of KNOWN) this.add(name, role)
    metadata.forEach((name, index) => {
      const bytes = Buffer.from(name, 'latin1')
      if (this.roleOf(bytes, 0, bytes.length) !== Role.other) {
        throw new TypeError(`metadata: "${name}" is not a name in lower case that may be read.`)
      }
      this.add(name, Role.metadata + index)
    })
  }

  roleOf(bytes: Uint8Array, start: number, end: number): number {
    const candidates = this.#byLength[end - start]
    if (candidates !== undefined) {
      for (const candidate of candidates) {
        if (isEqual(candidate.bytes, bytes, start)) return candidate.role
      }
    }
    return roleOfUnknown(bytes, start, end)
  }

  private add(name: string, role: number): void {
    const bytes = Buffer.from(name, 'latin1')
    this.#byLength[bytes.length] = [...(this.#byLength[bytes.length] ?? []), { bytes, role }]
  }
}

function isEqual(name: Buffer, bytes: Uint8Array, start: number): boolean {
  for (let index = 0; index < name.length; index++) {
    if (name[index] !== bytes[start + index]) return false
  }
  return true
}

function roleOfUnknown(bytes: Uint8Array, start: number, end: number): number {
  if (start === end) return Role.malformed
  if (bytes[start] === COLON) return Role.unknownPseudo
  for (let at = start; at < end; at++) {
    if (IS_NAME_BYTE[bytes[at] ?? 0] === 0) return Role.malformed
  }
  return Role.other
}

/** NUL, CR and LF would end a field, or begin another one, where it is written as text. */
export function isValueAllowed(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0
    if (byte <= 0x0d && (byte === 0 || byte === 0x0a || byte === 0x0d)) return false
  }
  return true
}
