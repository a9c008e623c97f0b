/** Shrinks screenshots to palette PNGs of 256 colours. */
import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')
const COLOURS_MAX = 256
/** The most frequent colours, which are kept exactly. */
const EXACT = 48
/** Squared distance from which two colours look different. */
const UNLIKE = 150

interface Pixels {
  readonly width: number
  readonly height: number
  /** Three bytes per pixel: red, green, blue. */
  readonly rgb: Buffer
}

/** Reduces an image to its most frequent colours; other colours become the nearest of them. */
export function smallPng(png: Buffer): Buffer {
  const { width, height, rgb } = readPng(png)
  const counts = new Map<number, number>()
  for (let at = 0; at < rgb.length; at += 3) {
    const colour = rgb.readUIntBE(at, 3)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const frequent = [...counts].toSorted(([, one], [, other]) => other - one)
  const palette = choose(frequent.map(([colour]) => colour))
  const indexes = new Map(palette.map((colour, index) => [colour, index]))
  for (const colour of counts.keys()) {
    if (!indexes.has(colour)) indexes.set(colour, nearest(colour, palette))
  }
  const rows = Buffer.alloc((width + 1) * height)
  for (let pixel = 0; pixel < width * height; pixel++) {
    const index = indexes.get(rgb.readUIntBE(pixel * 3, 3)) ?? 0
    rows[pixel + Math.floor(pixel / width) + 1] = index
  }
  const colours = Buffer.alloc(palette.length * 3)
  for (const [index, colour] of palette.entries()) colours.writeUIntBE(colour, index * 3, 3)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', Buffer.from([...uint32(width), ...uint32(height), 8, 3, 0, 0, 0])),
    chunk('PLTE', colours),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Keeps the most frequent colours, and of the others those that differ from all before. */
function choose(frequent: readonly number[]): readonly number[] {
  const palette: number[] = []
  for (const colour of frequent) {
    if (palette.length === COLOURS_MAX) break
    const other = palette[nearest(colour, palette)]
    const isNew = other === undefined || distance(colour, other) > UNLIKE
    if (palette.length < EXACT || isNew) palette.push(colour)
  }
  return palette
}

function nearest(colour: number, palette: readonly number[]): number {
  let [best, least] = [0, Number.POSITIVE_INFINITY]
  for (const [index, other] of palette.entries()) {
    const far = distance(colour, other)
    if (far < least) [best, least] = [index, far]
  }
  return best
}

/** Squared distance of two colours. */
function distance(one: number, other: number): number {
  const red = (one >> 16) - (other >> 16)
  const green = ((one >> 8) & 255) - ((other >> 8) & 255)
  const blue = (one & 255) - (other & 255)
  return red * red + green * green + blue * blue
}

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function chunk(name: string, data: Buffer): Buffer {
  const said = Buffer.concat([Buffer.from(name), data])
  return Buffer.concat([uint32(data.length), said, uint32(crc32(said))])
}

/** Reads the PNGs that browsers write: 8 bits per channel, not interlaced. */
function readPng(png: Buffer): Pixels {
  const data: Buffer[] = []
  let [width, height, channels] = [0, 0, 3]
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const name = png.toString('latin1', at + 4, at + 8)
    const body = png.subarray(at + 8, at + 8 + length)
    if (name === 'IHDR') {
      ;[width, height] = [body.readUInt32BE(0), body.readUInt32BE(4)]
      channels = body[9] === 6 ? 4 : 3
    }
    if (name === 'IDAT') data.push(body)
    at += length + 12
  }
  return { width, height, rgb: unfilter(inflateSync(Buffer.concat(data)), width, channels) }
}

/** Undoes the row filters; the first byte of each row is its filter type. */
function unfilter(rows: Buffer, width: number, channels: number): Buffer {
  const length = width * channels
  const height = rows.length / (length + 1)
  const rgb = Buffer.alloc(width * height * 3)
  let above = Buffer.alloc(length)
  for (let y = 0; y < height; y++) {
    const start = y * (length + 1)
    const kind = rows[start] ?? 0
    const row = Buffer.from(rows.subarray(start + 1, start + 1 + length))
    for (let x = 0; x < length; x++) {
      const left = x < channels ? 0 : (row[x - channels] ?? 0)
      const corner = x < channels ? 0 : (above[x - channels] ?? 0)
      row[x] = (row[x] ?? 0) + predicted(kind, left, above[x] ?? 0, corner)
    }
    for (let x = 0; x < width; x++)
      row.copy(rgb, (y * width + x) * 3, x * channels, x * channels + 3)
    above = row
  }
  return rgb
}

function predicted(kind: number, left: number, up: number, corner: number): number {
  if (kind === 1) return left
  if (kind === 2) return up
  if (kind === 3) return (left + up) >> 1
  if (kind !== 4) return 0
  const guess = left + up - corner
  const [toLeft, toUp, toCorner] = [guess - left, guess - up, guess - corner].map(Math.abs)
  if ((toLeft ?? 0) <= (toUp ?? 0) && (toLeft ?? 0) <= (toCorner ?? 0)) return left
  return (toUp ?? 0) <= (toCorner ?? 0) ? up : corner
}
