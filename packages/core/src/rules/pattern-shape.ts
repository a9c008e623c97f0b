/** Converts a path pattern to a text for comparison: parameters count only by position. */
import { foldPath, type PathPattern } from '../path.js'

/** Two patterns with one shape match the same paths. */
export function patternShape(pattern: PathPattern, isStrict: boolean): string {
  const segments = pattern.segments.map((segment) => ('param' in segment ? ':' : segment.literal))
  const shape = `/${[...segments, ...(pattern.wildcard ? ['*'] : [])].join('/')}`
  return isStrict ? shape : foldPath(shape)
}

/**
 * Returns the shapes of this pattern and of every `/*` above it: each matches all that it matches.
 */
export function coveringShapes(pattern: PathPattern, isStrict: boolean): readonly string[] {
  const { segments } = pattern
  const last = segments.at(-1)
  // A trailing slash is not a segment that `*` matches.
  const hasTrailingSlash = last !== undefined && 'literal' in last && last.literal === ''
  const depth = hasTrailingSlash && !pattern.wildcard ? segments.length - 1 : segments.length
  const above = Array.from({ length: depth }, (_, length) =>
    patternShape({ text: '', segments: segments.slice(0, length), wildcard: true }, isStrict),
  )
  return [patternShape(pattern, isStrict), ...above]
}
