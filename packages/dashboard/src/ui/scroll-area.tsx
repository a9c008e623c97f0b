/** An area that scrolls its own content. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { classes } from './tone.js'

interface ScrollAreaProps {
  readonly label: string
  readonly class?: string | undefined
  /** Shows table rows as cards where the columns do not fit. */
  readonly hasCards?: boolean | undefined
  readonly children: ComponentChildren
}

/** Takes part in the tab order only while it scrolls. */
export function ScrollArea({
  label,
  class: extraClass,
  hasCards = false,
  children,
}: ScrollAreaProps) {
  const area = useRef<HTMLDivElement>(null)
  const [isScrolled, setScrolled] = useState(false)
  // Runs after every render, as a new row may be wider.
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
    // Waits for the next frame: browsers report an error if a resize callback changes sizes.
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

/** Phones always show cards, even where two columns would fit. */
const PHONE = '(max-width: 719px)'
/** Keeps a table from switching back to cards when a number gets one digit longer. */
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
