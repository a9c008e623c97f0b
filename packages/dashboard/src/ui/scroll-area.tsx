/** A place that scrolls inside itself. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { classes } from './tone.js'

interface ScrollAreaProps {
  readonly label: string
  readonly class?: string | undefined
  /** Rows become cards where the columns of its table have no room. */
  readonly hasCards?: boolean | undefined
  readonly children: ComponentChildren
}

/** What scrolls can be reached by keyboard; what does not is no stop on the way. */
export function ScrollArea({
  label,
  class: extraClass,
  hasCards = false,
  children,
}: ScrollAreaProps) {
  const area = useRef<HTMLDivElement>(null)
  const [isScrolled, setScrolled] = useState(false)
  // After every draw, as another row may need more room.
  useLayoutEffect(() => {
    if (hasCards && area.current !== null) updateLayout(area.current)
  })
  useEffect(() => {
    const element = area.current
    if (element === null) return
    const measure = () => {
      if (hasCards) updateLayout(element)
      setScrolled(
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight,
      )
    }
    // In the next frame: what changes a size while sizes are told is an error to browsers.
    const observer = new ResizeObserver(() => requestAnimationFrame(measure))
    observer.observe(element)
    if (element.firstElementChild !== null) observer.observe(element.firstElementChild)
    return () => observer.disconnect()
  }, [hasCards])
  const regionAttributes = isScrolled
    ? ({ tabIndex: 0, role: 'region', 'aria-label': label } as const)
    : {}
  return (
    <div ref={area} class={classes('scroll-area', extraClass)} {...regionAttributes}>
      {children}
    </div>
  )
}

/** On a phone there is nothing to compare across columns, even where two would fit. */
const PHONE = '(max-width: 719px)'
/** More than a figure grows by: cards that became a table stay one. */
const SPARE_PX = 24

function updateLayout(area: HTMLElement): void {
  const wereCards = area.classList.contains('cards')
  area.classList.toggle('cards', matchMedia(PHONE).matches || isTooNarrow(area, wereCards))
}

function isTooNarrow(area: HTMLElement, wereCards: boolean): boolean {
  const table = area.firstElementChild
  if (!(table instanceof HTMLElement)) return false
  area.classList.remove('cards')
  area.classList.add('measured')
  const neededWidth = table.offsetWidth + (wereCards ? SPARE_PX : 0)
  area.classList.remove('measured')
  return neededWidth > area.clientWidth
}
