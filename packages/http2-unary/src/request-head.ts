import { parseTimeoutMs } from './grpc/timeout.js'
import type { FieldSink } from './hpack/decoder.js'
import { Role } from './hpack/field-names.js'
import {
  BAD_TIMEOUT,
  HEADERS_TOO_LARGE,
  METHOD_NOT_ALLOWED,
  METHOD_NOT_ALLOWED_HEAD,
  type Response,
  UNSUPPORTED_MEDIA_TYPE,
} from './responses.js'

/** Of gRPC itself and of proto, its default. Parameters are ignored. */
const GRPC_TYPE = /^application\/grpc(?:\+proto)?(?:\s*;.*)?$/i

/** `content-length` was not sent. */
export const NO_LENGTH = -1

/** More digits than any body that is accepted has. */
const LENGTH = /^\d{1,15}$/

/** Reads the fields of one block of headers after the other, and says what to do with each. */
export class RequestHead implements FieldSink {
  readonly #listBytesMax: number
  method = ''
  path = ''
  contentLength = NO_LENGTH
  timeoutMs: number | undefined
  /** The values of metadata by their place in the option, if there are any. */
  metadata: (string | undefined)[] | undefined
  /** The length of these values. */
  metadataBytes = 0

  #contentType = ''
  #hasScheme = false
  #hasAuthority = false
  #hasBadTimeout = false
  #isTrailer = false
  #hasRegular = false
  #isMalformed = false
  #listBytes = 0

  constructor(listBytesMax: number) {
    this.#listBytesMax = listBytesMax
  }

  begin(isTrailer: boolean): void {
    this.method = ''
    this.path = ''
    this.contentLength = NO_LENGTH
    this.timeoutMs = undefined
    this.metadata = undefined
    this.metadataBytes = 0
    this.#contentType = ''
    this.#hasScheme = false
    this.#hasAuthority = false
    this.#hasBadTimeout = false
    this.#isTrailer = isTrailer
    this.#hasRegular = false
    this.#isMalformed = false
    this.#listBytes = 0
  }

  /** Whether this is no request, or no end of one, by HTTP/2. */
  get isMalformed(): boolean {
    if (this.#isMalformed || this.#isTrailer || this.isTooLarge) return this.#isMalformed
    return this.method === '' || this.path === '' || !this.#hasScheme
  }

  private get isTooLarge(): boolean {
    return this.#listBytes > this.#listBytesMax
  }

  /** The answer to a request that is none of gRPC, or whose headers are refused. */
  get rejection(): Response | undefined {
    if (this.isTooLarge) return HEADERS_TOO_LARGE
    if (this.method !== 'POST') {
      return this.method === 'HEAD' ? METHOD_NOT_ALLOWED_HEAD : METHOD_NOT_ALLOWED
    }
    const type = this.#contentType
    if (type !== 'application/grpc' && !GRPC_TYPE.test(type)) return UNSUPPORTED_MEDIA_TYPE
    return this.#hasBadTimeout ? BAD_TIMEOUT : undefined
  }

  onField(role: number, value: string, bytes: number): void {
    this.#listBytes += bytes
    // The rest is decoded for the table only.
    if (this.isTooLarge) return
    if (role >= Role.metadata) this.addMetadata(role - Role.metadata, value)
    else if (role <= Role.authority && role !== Role.other) this.readPseudo(role, value)
    else this.readRegular(role, value)
  }

  private readPseudo(role: number, value: string): void {
    if (this.#hasRegular || this.#isTrailer) this.#isMalformed = true
    if (role === Role.method) {
      if (this.method !== '' || value === '') this.#isMalformed = true
      this.method = value
    } else if (role === Role.path) {
      if (this.path !== '' || value === '') this.#isMalformed = true
      this.path = value
    } else if (role === Role.scheme) {
      if (this.#hasScheme) this.#isMalformed = true
      this.#hasScheme = true
    } else {
      if (this.#hasAuthority) this.#isMalformed = true
      this.#hasAuthority = true
    }
  }

  private readRegular(role: number, value: string): void {
    this.#hasRegular = true
    switch (role) {
      case Role.contentType:
        this.#contentType = value
        break
      case Role.te:
        if (value !== 'trailers') this.#isMalformed = true
        break
      case Role.contentLength:
        this.readLength(value)
        break
      case Role.timeout:
        this.timeoutMs = parseTimeoutMs(value)
        this.#hasBadTimeout = this.timeoutMs === undefined
        break
      case Role.connectionSpecific:
      case Role.unknownPseudo:
      case Role.malformed:
        this.#isMalformed = true
        break
    }
  }

  private readLength(value: string): void {
    const length = LENGTH.test(value) ? Number(value) : NO_LENGTH
    const isOther = this.contentLength !== NO_LENGTH && this.contentLength !== length
    if (length === NO_LENGTH || isOther) this.#isMalformed = true
    this.contentLength = length
  }

  private addMetadata(index: number, value: string): void {
    this.#hasRegular = true
    this.metadata ??= []
    this.metadataBytes += value.length
    const before = this.metadata[index]
    this.metadata[index] = before === undefined ? value : `${before},${value}`
  }
}
