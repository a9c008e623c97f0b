/** Parses server-sent events from text that arrives in chunks, cut anywhere. */
import { isRecord, jsonOf } from './read-problem.js'
import type { EventView } from './api-types.js'

/** The maximum length of an event; a tick of all rules has a tenth of it. */
const EVENT_LENGTH_MAX = 4 * 1024 * 1024
const NAMES: readonly string[] = ['tick', 'rules', 'alert']

export interface EventReader {
  /** Passes on each complete event; returns false if one exceeds the maximum length. */
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

/** Undefined for an event that this release does not know. */
function eventOf(event: string, text: string): EventView | undefined {
  const data = jsonOf(text)
  return NAMES.includes(event) && isRecord(data) ? ({ event, data } as EventView) : undefined
}
