/** Chooses the page for the address, or the login page without a session. */
import { useEffect, useState } from 'preact/hooks'
import { openSession, session } from './api.js'
import { startLive } from './live.js'
import { AlertsPage } from './pages/alerts.js'
import { CallersPage } from './pages/callers.js'
import { LoginPage } from './pages/login.js'
import { NodesPage } from './pages/nodes.js'
import { OverviewPage } from './pages/overview.js'
import { PlaygroundPage } from './pages/playground.js'
import { RulePage } from './pages/rule.js'
import { RulesPage } from './pages/rules.js'
import { WhyPage } from './pages/why.js'
import { currentHref, hrefs, isLocalHref, navigate, type Route, route } from './router.js'
import { Shell } from './shell.js'
import { Empty, ErrorNote, Link, Loading, Page, Toasts } from './ui/index.js'

export function App() {
  return (
    <>
      <SessionGate />
      <Toasts />
    </>
  )
}

function SessionGate() {
  const [error, setError] = useState<unknown>()
  const checkSession = () => {
    setError(undefined)
    openSession().catch(setError)
  }
  useEffect(checkSession, [])
  const isLoggedIn = session.value !== null && session.value !== undefined
  useEffect(() => (isLoggedIn ? startLive() : undefined), [isLoggedIn])
  const { name, query } = route.value
  // Without a session only the login page is shown; with one it redirects to the overview.
  useEffect(() => {
    if (session.value === null && name !== 'login') {
      navigate(hrefs.login(currentHref.value), { replace: true })
    } else if (isLoggedIn && name === 'login') {
      const back = query.get('back')
      navigate(isLocalHref(back) ? back : hrefs.overview, { replace: true })
    }
  }, [session.value, name])
  if (error !== undefined) {
    return (
      <main class="standalone">
        <ErrorNote error={error} onRetry={checkSession} />
      </main>
    )
  }
  if (session.value === undefined) {
    return (
      <main class="standalone">
        <Loading />
      </main>
    )
  }
  if (!isLoggedIn) return <LoginPage />
  return (
    <Shell>
      <CurrentPage at={route.value} />
    </Shell>
  )
}

function CurrentPage({ at }: { readonly at: Route }) {
  switch (at.name) {
    case 'overview':
      return <OverviewPage />
    case 'rules':
      return <RulesPage />
    case 'rule':
      return <RulePage key={at.id} id={at.id} />
    case 'callers':
      return <CallersPage />
    case 'nodes':
      return <NodesPage />
    case 'alerts':
      return <AlertsPage />
    case 'why':
      return <WhyPage />
    case 'playground':
      return <PlaygroundPage />
    case 'login':
      return <Loading />
    case 'unknown':
      return (
        <Page title="Page not found">
          <Empty title="There is no page at this address.">
            <Link href={hrefs.overview}>Go to the overview</Link>
          </Empty>
        </Page>
      )
  }
}
