/** Parses the URL of Redis with the parser of the store, whose messages show no password. */
import { reportAt, type Located } from '@sluice/core/config-reader'
import { parseRedisUrl } from '@sluice/limiter/redis'
import { messageOf } from '../lib/message-of.js'
import { lastPart } from './fields.js'

export function readRedisUrl(located: Located): string | undefined {
  const { node } = located
  const value = node.kind === 'scalar' ? node.value : undefined
  const text = typeof value === 'string' ? value : ''
  const problem = findProblem(text)
  if (problem === undefined) return text
  const { found, accepted } = problem
  if (value === text) return reportAt(located, 'bad-value', { found, accepted })
  if (node.kind !== 'scalar') return reportAt(located, 'wrong-type', { accepted })
  return reportAt(located, 'wrong-type', { found: 'a value that is no text, not shown', accepted })
}

interface UrlProblem {
  readonly found: string
  readonly accepted: string
}

function findProblem(url: string): UrlProblem | undefined {
  try {
    parseRedisUrl(url)
    return undefined
  } catch (error) {
    const message = messageOf(error)
    const [, found = message, accepted = ''] = /: found (.*); accepted: (.*)$/s.exec(message) ?? []
    return { found: lastPart(found), accepted }
  }
}
