/**
 * Serves the files of the dashboard. They contain no data, so they need no token; everything they
 * show comes from the admin API. They are part of a module and served from memory: no requested
 * path reaches the file system.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import { dashboardFiles } from '@sluice/dashboard'

const INDEX = '/index.html'
/** A file that compression makes smaller by no more than this is sent uncompressed. */
const PACKED_SHARE_MAX = 0.95

const TYPES: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.png', 'image/png'],
  ['.ico', 'image/x-icon'],
  ['.woff2', 'font/woff2'],
  ['.json', 'application/json'],
  ['.txt', 'text/plain; charset=utf-8'],
  ['.map', 'application/json'],
  ['.webmanifest', 'application/manifest+json'],
])

/** Only the dashboard's own scripts, styles and data; never in a frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const COMMON_HEADERS = [
  ['Content-Security-Policy', POLICY],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['Permissions-Policy', 'camera=(), geolocation=(), microphone=(), payment=(), usb=()'],
  ['Vary', 'Accept-Encoding'],
].flat()

interface StaticFile {
  readonly type: string
  /** Without quotes. */
  readonly tag: string
  readonly caching: string
  readonly plain: Buffer
  /** Undefined if compression does not help. */
  readonly packed: Buffer | undefined
}

export interface StaticFiles {
  /** Whether it responded: to a GET or HEAD of a path outside the API. */
  handle(request: IncomingMessage, response: ServerResponse): boolean
}

/** Serves these texts by their paths, and the page for every path that names no file. */
export function createStaticFiles(
  texts: ReadonlyMap<string, string> = dashboardFiles,
): StaticFiles {
  const files = new Map<string, StaticFile>()
  for (const [path, text] of texts) {
    const type = TYPES.get(extname(path))
    if (type !== undefined) files.set(path, fileOf(path, type, Buffer.from(text)))
  }
  const index = files.get(INDEX)
  return {
    handle(request, response) {
      const { method, url = '' } = request
      if (method !== 'GET' && method !== 'HEAD') return false
      const path = url.split('?', 1)[0] ?? ''
      if (!isStaticPath(path)) return false
      const isFile = TYPES.has(extname(path))
      const file = files.get(path) ?? (isFile ? undefined : index)
      if (file === undefined) sendNotFound(response)
      else sendFile(request, response, file)
      return true
    },
  }
}

/** The characters in a path of the dashboard. */
const PATH = /^\/(?!\/)[\w.~%!$&'()*+,;=:@/-]*$/

/** All other paths are left to the API to refuse. */
function isStaticPath(path: string): boolean {
  return PATH.test(path) && !/^\/(admin|metrics)(\/|$)/.test(path)
}

/** Names in `assets` contain a hash of the content, so the content never changes. */
function fileOf(path: string, type: string, plain: Buffer): StaticFile {
  const packed = gzipSync(plain, { level: 9 })
  const isSmaller = packed.length < plain.length * PACKED_SHARE_MAX
  return {
    type,
    tag: hash('sha256', plain, 'base64url').slice(0, 22),
    caching: path.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
    plain,
    packed: isSmaller ? packed : undefined,
  }
}

function sendFile(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  { type, tag, caching, plain, packed }: StaticFile,
): void {
  const gzip = packed !== undefined && acceptsGzip(headers['accept-encoding'])
  const body = gzip ? packed : plain
  const etag = gzip ? `"${tag}-gz"` : `"${tag}"`
  const fields = ['Content-Type', type, 'Cache-Control', caching, 'ETag', etag, ...COMMON_HEADERS]
  if (isKnown(headers['if-none-match'], etag)) {
    response.writeHead(304, fields)
    response.end()
    return
  }
  const encoding = gzip ? ['Content-Encoding', 'gzip'] : []
  response.writeHead(200, [...fields, ...encoding, 'Content-Length', String(body.length)])
  response.end(method === 'HEAD' ? undefined : body)
}

/** Proxies store several ETags, and mark one as weak if they compress differently. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const known = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return known.includes(etag) || header.trim() === '*'
}

function acceptsGzip(header: string | string[] | undefined): boolean {
  return /(?:^|,)\s*gzip\s*(?:;\s*q\s*=\s*(?!0(?:\.0*)?\s*(?:,|$))[\d.]+\s*)?(?:,|$)/i.test(
    String(header ?? ''),
  )
}

function sendNotFound(response: ServerResponse): void {
  const body = 'There is no such file.\n'
  const type = ['Content-Type', 'text/plain; charset=utf-8', 'Cache-Control', 'no-store']
  response.writeHead(404, [...type, ...COMMON_HEADERS, 'Content-Length', String(body.length)])
  response.end(body)
}
