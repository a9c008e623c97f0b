/** A place that scrolls inside itself. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { classes } from './tone.js'

interface RoomProps {
  readonly label: string
  readonly class?: string | undefined
  readonly children: ComponentChildren
}

/** What scrolls can be reached by keyboard; what does not is no stop on the way. */
export function Room({ label, class: more, children }: RoomProps) {
  const room = useRef<HTMLDivElement>(null)
  const [isScrolled, setScrolled] = useState(false)
  useEffect(() => {
    const element = room.current
    if (element === null) return
    const look = () =>
      setScrolled(
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight,
      )
    const watch = new ResizeObserver(look)
    watch.observe(element)
    if (element.firstElementChild !== null) watch.observe(element.firstElementChild)
    return () => watch.disconnect()
  }, [])
  const reachable = isScrolled
    ? ({ tabIndex: 0, role: 'region', 'aria-label': label } as const)
    : {}
  return (
    <div ref={room} class={classes('table-room', more)} {...reachable}>
      {children}
    </div>
  )
}
