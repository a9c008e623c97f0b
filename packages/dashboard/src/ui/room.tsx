/** A place that scrolls inside itself. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { classes } from './tone.js'

interface RoomProps {
  readonly label: string
  readonly class?: string | undefined
  /** Rows become cards where the columns of its table have no room. */
  readonly hasCards?: boolean | undefined
  readonly children: ComponentChildren
}

/** What scrolls can be reached by keyboard; what does not is no stop on the way. */
export function Room({ label, class: more, hasCards = false, children }: RoomProps) {
  const room = useRef<HTMLDivElement>(null)
  const [isScrolled, setScrolled] = useState(false)
  // After every draw, as another row may need more room.
  useLayoutEffect(() => {
    if (hasCards && room.current !== null) fit(room.current)
  })
  useEffect(() => {
    const element = room.current
    if (element === null) return
    const look = () => {
      if (hasCards) fit(element)
      setScrolled(
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight,
      )
    }
    // In the next frame: what changes a size while sizes are told is an error to browsers.
    const watch = new ResizeObserver(() => requestAnimationFrame(look))
    watch.observe(element)
    if (element.firstElementChild !== null) watch.observe(element.firstElementChild)
    return () => watch.disconnect()
  }, [hasCards])
  const reachable = isScrolled
    ? ({ tabIndex: 0, role: 'region', 'aria-label': label } as const)
    : {}
  return (
    <div ref={room} class={classes('table-room', more)} {...reachable}>
      {children}
    </div>
  )
}

/** On a phone there is nothing to compare across columns, even where two would fit. */
const PHONE = '(max-width: 719px)'
/** More than a figure grows by: cards that became a table stay one. */
const SPARE_PX = 24

function fit(room: HTMLElement): void {
  const wereCards = room.classList.contains('cards')
  room.classList.toggle('cards', matchMedia(PHONE).matches || isTight(room, wereCards))
}

function isTight(room: HTMLElement, wereCards: boolean): boolean {
  const table = room.firstElementChild
  if (!(table instanceof HTMLElement)) return false
  room.classList.remove('cards')
  room.classList.add('measured')
  const needed = table.offsetWidth + (wereCards ? SPARE_PX : 0)
  room.classList.remove('measured')
  return needed > room.clientWidth
}
