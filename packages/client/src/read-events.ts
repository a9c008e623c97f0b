/** Server-sent events out of text that comes in pieces, cut wherever the way here cut it. */
import { isRecord, jsonOf } from './read-problem.js'
import type { EventView } from './api-types.js'

/** Longer is no event of Sluice's: a tick of all rules has a tenth of it. */
const EVENT_LENGTH_MAX = 4 * 1024 * 1024
const NAMES: readonly string[] = ['tick', 'rules', 'alert']

export interface EventReader {
  /** Tells of each event that is complete; false where one has no end in sight. */
  push(chunk: string): boolean
}

export function createEventReader(onEvent: (event: EventView) => void): EventReader {
  let rest = ''
  let name = ''
  let data: string[] = []
  let length = 0
  const takeLine = (line: string) => {
    if (line === '') {
      const event = eventOf(name, data.join('\n'))
      name = ''
      data = []
      length = 0
      if (event !== undefined) onEvent(event)
      return
    }
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (field === 'event') name = value
    else if (field === 'data') data.push(value)
    length += line.length
  }
  return {
    push(chunk) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) takeLine(line.endsWith('\r') ? line.slice(0, -1) : line)
      return rest.length + length <= EVENT_LENGTH_MAX
    },
  }
}

/** Undefined: one that this release does not know. */
function eventOf(event: string, text: string): EventView | undefined {
  const data = jsonOf(text)
  return NAMES.includes(event) && isRecord(data) ? ({ event, data } as EventView) : undefined
}
