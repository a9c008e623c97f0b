/** Reads a share: a percentage, or a number from 0 to 1. */
import { SHARE_WHOLE } from '../matching/ceilings.js'
import { readNumber, reportAt, type Located } from './reader.js'

const PERCENTAGE = /^(\d{1,3}(?:\.\d{1,2})?) ?%$/

interface ShareBounds {
  /** In ten-thousandths, like the share. */
  readonly least: number
  readonly most: number
  readonly accepted: string
}

/** Returns whole ten-thousandths, so that no share is rounded. */
export function readShare(
  located: Located,
  { least, most, accepted }: ShareBounds,
): number | undefined {
  const { node } = located
  const text = node.kind === 'scalar' && typeof node.value === 'string' ? node.value : ''
  const percent = PERCENTAGE.exec(text)?.[1]
  const read = percent === undefined ? readNumber(located, accepted) : Number(percent) / 100
  if (read === undefined) return undefined
  const share = Math.round(read * SHARE_WHOLE)
  const isExact = Math.abs(share - read * SHARE_WHOLE) < 1e-6
  if (isExact && share >= least && share <= most) return share
  return reportAt(located, 'bad-number', { accepted })
}
