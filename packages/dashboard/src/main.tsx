/** Starts the page. */
// The styles of all come before those of the pages, which may say otherwise.
import './styles/theme.css'
import './styles/base.css'
import './styles/parts.css'
import './styles/tables.css'
import './styles/over.css'
import './styles/figures.css'
import './styles/shell.css'
import { render } from 'preact'
import { App } from './app.js'
import { startClock } from './clock.js'
import { startRouter } from './router.js'
import { startTheme } from './theme.js'

startTheme()
startClock()
startRouter()
const room = document.getElementById('app')
if (room !== null) render(<App />, room)
