/** Starts the dashboard. */
// Shared styles come first, so that the styles of pages can override them.
import './styles/theme.css'
import './styles/base.css'
import './styles/controls.css'
import './styles/tables.css'
import './styles/overlays.css'
import './styles/charts.css'
import './styles/shell.css'
import { render } from 'preact'
import { App } from './app.js'
import { startClock } from './clock.js'
import { startRouter } from './router.js'
import { startTheme } from './theme.js'

startTheme()
startClock()
startRouter()
const container = document.getElementById('app')
if (container !== null) render(<App />, container)
