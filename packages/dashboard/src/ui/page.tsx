/** The layout of a page: heading, cards, grids and definition lists. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { visibleText } from '../format.js'
import { classes } from './tone.js'

interface PageProps {
  readonly title: string
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}

let pagesShown = 0

/** Moves the focus to the heading after a navigation, so that screen readers announce the page. */
export function Page({ title, lead, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (pagesShown++ > 0) {
      heading.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
    }
  }, [])
  useEffect(() => {
    document.title = `${visibleText(title, 80)} · Sluice`
  }, [title])
  return (
    <div class="page">
      <div class="page-head">
        <div class="page-title">
          <h1 ref={heading} tabIndex={-1}>
            <bdi>{visibleText(title, 80)}</bdi>
          </h1>
          {lead !== undefined && <p class="lead">{lead}</p>}
        </div>
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </div>
      {children}
    </div>
  )
}

interface CardProps {
  readonly title?: string | undefined
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  /** Removes the padding, for tables. */
  readonly flush?: boolean | undefined
  readonly class?: string | undefined
  readonly children: ComponentChildren
}

export function Card({
  title,
  lead,
  actions,
  flush = false,
  class: extraClass,
  children,
}: CardProps) {
  const id = useId()
  return (
    <section
      class={classes('card', flush && 'card-flush', extraClass)}
      aria-labelledby={title === undefined ? undefined : id}
    >
      {(title !== undefined || actions !== undefined) && (
        <div class="card-head">
          <div>
            {title !== undefined && <h2 id={id}>{title}</h2>}
            {lead !== undefined && <p class="card-lead">{lead}</p>}
          </div>
          {actions !== undefined && <div class="card-actions">{actions}</div>}
        </div>
      )}
      <div class="card-body">{children}</div>
    </section>
  )
}

interface GridProps {
  readonly columns?: 2 | 3 | 4 | undefined
  readonly children: ComponentChildren
}

export function Grid({ columns = 2, children }: GridProps) {
  return <div class={`grid grid-${columns}`}>{children}</div>
}

export function Row({
  children,
  spread = false,
}: {
  readonly children: ComponentChildren
  readonly spread?: boolean
}) {
  return <div class={classes('row', spread && 'row-spread')}>{children}</div>
}

export function Stack({
  children,
  gap = 4,
}: {
  readonly children: ComponentChildren
  readonly gap?: 1 | 2 | 3 | 4 | 5 | 6
}) {
  return <div class={`stack stack-${gap}`}>{children}</div>
}

interface DefinitionsProps {
  readonly items: readonly { readonly term: string; readonly value: ComponentChildren }[]
}

export function Definitions({ items }: DefinitionsProps) {
  return (
    <dl class="definitions">
      {items.map(({ term, value }) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
