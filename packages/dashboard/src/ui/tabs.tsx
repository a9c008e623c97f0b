/** Tabs with the keyboard behaviour of the ARIA pattern: arrow keys, Home and End. */
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'

interface TabsProps {
  readonly label: string
  readonly tabs: readonly {
    readonly id: string
    readonly label: string
    readonly count?: number | undefined
  }[]
  /** Id of the selected tab. */
  readonly value: string
  readonly onChange: (id: string) => void
  /** Content of the selected tab. */
  readonly children: ComponentChildren
}

const KEY_TARGETS: Readonly<Record<string, (at: number, length: number) => number>> = {
  ArrowRight: (at, length) => (at + 1) % length,
  ArrowLeft: (at, length) => (at + length - 1) % length,
  Home: () => 0,
  End: (_at, length) => length - 1,
}

export function Tabs({ label, tabs, value, onChange, children }: TabsProps) {
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const selected = Math.max(
    0,
    tabs.findIndex((tab) => tab.id === value),
  )
  const move = (event: KeyboardEvent) => {
    const target = KEY_TARGETS[event.key]?.(selected, tabs.length)
    const tab = target === undefined ? undefined : tabs[target]
    if (target === undefined || tab === undefined) return
    event.preventDefault()
    onChange(tab.id)
    list.current?.querySelectorAll<HTMLElement>('[role=tab]')[target]?.focus()
  }
  return (
    <div class="tabs">
      <div class="tab-list" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((tab, index) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            class="tab"
            id={`${id}-${tab.id}`}
            aria-selected={index === selected}
            aria-controls={`${id}-panel`}
            tabIndex={index === selected ? 0 : -1}
            onClick={() => onChange(tab.id)}
          >
            {tab.label} {tab.count !== undefined && <span class="tab-count">{tab.count}</span>}
          </button>
        ))}
      </div>
      <div
        class="tab-panel"
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${tabs[selected]?.id ?? ''}`}
        tabIndex={-1}
      >
        {children}
      </div>
    </div>
  )
}
