/** The frame around the pages: navigation, session controls and the connection banner. */
import type { Role } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { session, signOut } from './api.js'
import logo from './assets/logo.svg'
import { nowMs } from './clock.js'
import { duration } from './format.js'
import { hasPagingAlert, liveAlerts } from './live-alerts.js'
import { alertsActive, connection, lastAlert } from './live.js'
import { hrefs, route } from './router.js'
import { nextTheme, themeChoice } from './theme.js'
import { Button, Link, Text, toast } from './ui/index.js'
import { alertSummary } from './pages/alerts/alert-summary.js'

/** The server sends a tick every two seconds; after this time its data counts as old. */
const QUIET_MS = 8000

interface NavItem {
  readonly name: string
  readonly href: string
  readonly label: string
  /** SVG path in a 20 by 20 view box. */
  readonly icon: string
}

const NAV_ITEMS: readonly NavItem[] = [
  { name: 'overview', href: '/', label: 'Overview', icon: 'M3 13h3l2.5-8 3.5 11 2.5-6 1 3H17' },
  { name: 'rules', href: '/rules', label: 'Rules', icon: 'M4 5h12M4 10h12M4 15h7' },
  {
    name: 'callers',
    href: '/callers',
    label: 'Callers',
    icon: 'M10 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 16.5c.6-3 3-4.5 6-4.5s5.4 1.5 6 4.5',
  },
  {
    name: 'nodes',
    href: '/nodes',
    label: 'Nodes',
    icon: 'M4 4h12v4.5H4zM4 11.5h12V16H4zM7 6.25h.01M7 13.75h.01',
  },
  {
    name: 'alerts',
    href: '/alerts',
    label: 'Alerts',
    icon: 'M10 3a4.5 4.5 0 0 1 4.5 4.5c0 4 1.5 5 1.5 6H4c0-1 1.5-2 1.5-6A4.5 4.5 0 0 1 10 3zM8.5 16.5h3',
  },
  {
    name: 'why',
    href: '/why',
    label: 'Why?',
    icon: 'M7.5 7.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M10 14.5h.01',
  },
  {
    name: 'playground',
    href: '/playground',
    label: 'Playground',
    icon: 'M4 16V9M8 16V5M12 16v-5M16 16V7',
  },
]

export function Shell({ children }: { readonly children: ComponentChildren }) {
  useAlertToasts()
  return (
    <div class="shell">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="side">
        <Link href={hrefs.overview} class="brand">
          <img src={logo} alt="" width="28" height="28" />
          <span>Sluice</span>
        </Link>
        <Navigation />
        <SessionControls />
      </header>
      <main id="main" class="main" tabIndex={-1}>
        <Freshness />
        {children}
      </main>
    </div>
  )
}

function Navigation() {
  const current = route.value.name === 'rule' ? 'rules' : route.value.name
  const active = liveAlerts.value?.active.length ?? alertsActive.value ?? 0
  const list = useRef<HTMLUListElement>(null)
  // On a phone the navigation is wider than the screen.
  useEffect(() => {
    const currentLink = list.current?.querySelector('[aria-current]')
    currentLink?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [current])
  return (
    <nav class="nav" aria-label="Pages">
      <ul ref={list}>
        {NAV_ITEMS.map(({ name, href, label, icon }) => (
          <li key={name}>
            <Link href={href} isCurrent={name === current} class="nav-item">
              <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
                <path d={icon} />
              </svg>
              {label}
              {name === 'alerts' && active > 0 && (
                <span class={`nav-count tone-${hasPagingAlert.value ? 'refused' : 'degraded'}`}>
                  {active}
                  <span class="visually-hidden">
                    {' '}
                    active{hasPagingAlert.value && ', including a page'}
                  </span>
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  )
}

const THEME_ICONS = {
  system: 'M10 3.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM10 3.5v13',
  light:
    'M10 7a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1 1M14.7 14.7l1 1M15.7 4.3l-1 1M5.3 14.7l-1 1',
  dark: 'M15.5 12A6.5 6.5 0 0 1 8 4.5 6.5 6.5 0 1 0 15.5 12z',
} as const

const ROLES: Readonly<Record<Role, string>> = {
  read: 'read-only',
  edit: 'editor',
  admin: 'admin',
}

function SessionControls() {
  const user = session.value
  const choice = themeChoice.value
  return (
    <div class="session-controls">
      {user !== null && user !== undefined && (
        <p class="session-user">
          <Text value={user.name} max={40} />
          {user.name !== user.role && <span class="faint">{ROLES[user.role]}</span>}
        </p>
      )}
      <div class="session-buttons">
        <Button
          kind="quiet"
          size="small"
          onClick={nextTheme}
          label={`Theme: ${choice}. Change theme`}
        >
          <svg class="icon" viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
            <path d={THEME_ICONS[choice]} />
          </svg>
        </Button>
        <Button kind="quiet" size="small" onClick={() => void signOut().catch(() => undefined)}>
          Log out
        </Button>
      </div>
    </div>
  )
}

/** A banner while the connection is lost: old data must not look current. */
function Freshness() {
  const { state, lastMessageMs } = connection.value
  const age = lastMessageMs === undefined ? undefined : nowMs.value - lastMessageMs
  const isOld = state === 'lost' || (state === 'live' && age !== undefined && age > QUIET_MS)
  return (
    <div role="status" class="freshness">
      {isOld && (
        <p class="banner tone-degraded">
          <span class="spinner" aria-hidden="true" />
          <span>
            Reconnecting…{' '}
            {age !== undefined && (
              // Hidden from screen readers, which would announce it each second.
              <span aria-hidden="true">The figures below are {duration(age)} old.</span>
            )}
          </span>
        </p>
      )}
    </div>
  )
}

/** Shows a toast on every page when an alert starts or ends. */
function useAlertToasts(): void {
  const alert = lastAlert.value
  useEffect(() => {
    if (alert === undefined) return
    const isOver = alert.resolvedAt !== null
    const tone = alert.severity === 'page' ? 'refused' : 'degraded'
    toast(`${isOver ? 'Resolved' : 'Alert'}: ${alertSummary(alert)}`, isOver ? 'allowed' : tone)
  }, [alert])
}
