/** The login page. */
import { AdminError } from '@sluice/client'
import { useEffect, useState } from 'preact/hooks'
import { signIn } from '../api.js'
import logo from '../assets/logo.svg'
import { Button, Card, ErrorNote, Note, Stack, TextField } from '../ui/index.js'

export function LoginPage() {
  const [token, setToken] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    document.title = 'Log in · Sluice'
  }, [])
  const submit = (event: Event) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    signIn(token.trim()).catch((thrown: unknown) => {
      setError(thrown)
      setBusy(false)
    })
  }
  return (
    <main class="standalone">
      <div>
        <div class="login-brand">
          <img src={logo} alt="" />
          <div>
            <h1>Sluice</h1>
            <p>Log in to see which callers are limited, and why.</p>
          </div>
        </div>
        <Card>
          <form onSubmit={submit}>
            <Stack>
              <TextField
                label="Admin token"
                type="password"
                value={token}
                onInput={setToken}
                autoComplete="current-password"
                mono
                isRequired
              />
              {error !== undefined && <LoginError error={error} />}
              <Button kind="primary" type="submit" isBusy={isBusy}>
                Log in
              </Button>
            </Stack>
          </form>
        </Card>
        <TokenHelp />
      </div>
    </main>
  )
}

function LoginError({ error }: { readonly error: unknown }) {
  const status = error instanceof AdminError ? error.status : undefined
  if (status === 401 || status === 400) {
    return (
      <div role="alert">
        <Note tone="refused" title="Invalid token">
          Check for missing characters at either end. The token may also have expired.
        </Note>
      </div>
    )
  }
  if (status === 429) {
    return (
      <div role="alert">
        <Note tone="degraded" title="Too many attempts">
          Wait a minute, then try again.
        </Note>
      </div>
    )
  }
  return <ErrorNote error={error} />
}

function TokenHelp() {
  return (
    <section class="login-help" aria-labelledby="where">
      <h2 id="where">Finding the token</h2>
      <ul>
        <li>
          <code class="mono">sluice serve</code> prints it when it starts in a terminal.
        </li>
        <li>
          It is stored in the file <code class="mono">admin-token</code> of the data directory (
          <code class="mono">.sluice</code> by default).
        </li>
        <li>
          If <code class="mono">SLUICE_ADMIN_TOKEN</code> is set, that value is the token. An admin
          can also create a read-only token for you.
        </li>
      </ul>
    </section>
  )
}
