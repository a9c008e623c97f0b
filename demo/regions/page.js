/** Draws what the regions have counted, several times a second. */
const LOOK_EVERY_MS = 200
/** The time that a chart shows. */
const SHOWN_MS = 60_000
const WIDTH = 600
const HEIGHT = 160
const SVG = 'http://www.w3.org/2000/svg'

/** @type {Map<string, { atMs: number, counted: (number | null)[] }[]>} by caller */
const history = new Map()
const regionsPlace = document.querySelector('#regions')
const callersPlace = document.querySelector('#callers')
let isBuilt = false

void look()

async function look() {
  try {
    const state = await (await fetch('/state')).json()
    if (state.regions.length > 0) show(state)
    setText('#problem', '')
  } catch {
    setText('#problem', 'The demo has ended, or does not answer.')
  }
  setTimeout(() => void look(), LOOK_EVERY_MS)
}

function show(state) {
  if (!isBuilt) build(state)
  isBuilt = true
  setText('#max', state.max)
  setText('#window', `${state.windowSeconds} seconds`)
  setText('#next', `The next window begins in ${state.nextWindowSeconds} s.`)
  for (const [i, region] of state.regions.entries()) showRegion(regionsPlace.children[i], region)
  const nowMs = performance.now()
  for (const [i, caller] of state.callers.entries()) {
    const points = history.get(caller.name) ?? []
    history.set(caller.name, points)
    points.push({ atMs: nowMs, counted: caller.counted })
    while (points[0].atMs < nowMs - SHOWN_MS) points.shift()
    showCaller(callersPlace.children[i], caller, { state, points, nowMs })
  }
}

/** Elements that stay, so that a button can be pressed while figures change. */
function build({ regions, callers }) {
  for (const [i, { name }] of regions.entries()) {
    const card = add(regionsPlace, 'article', `card c${i}`)
    add(card, 'h2', '', name)
    add(card, 'p')
    const button = add(card, 'button')
    button.addEventListener('click', () => {
      const path = card.classList.contains('cut') ? '/heal' : '/cut'
      void fetch(`${path}?region=${name}`, { method: 'POST' })
    })
  }
  for (const { name, about, perSecond } of callers) {
    const part = add(callersPlace, 'article', 'caller')
    const header = add(part, 'header')
    const total = perSecond.reduce((sum, each) => sum + each, 0)
    add(header, 'h2', '', `Caller “${name}”: ${about}, ${total} calls a second`)
    add(header, 'span', 'sum')
    const chart = document.createElementNS(SVG, 'svg')
    chart.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`)
    chart.setAttribute('preserveAspectRatio', 'none')
    chart.setAttribute('role', 'img')
    chart.setAttribute('aria-label', `What each region has counted of ${name} in the last minute`)
    part.append(chart)
    const limit = document.createElementNS(SVG, 'line')
    limit.setAttribute('class', 'limit')
    chart.append(limit)
    for (const i of regions.keys()) {
      const line = document.createElementNS(SVG, 'polyline')
      line.setAttribute('class', `c${i}`)
      chart.append(line)
    }
    const axis = add(part, 'div', 'axis quiet')
    add(axis, 'span', '', 'a minute ago')
    add(axis, 'span', '', 'counted in each region; the dashed line is the limit')
    add(axis, 'span', '', 'now')
    buildTable(part, regions)
  }
}

function buildTable(part, regions) {
  const table = add(part, 'table')
  const head = add(add(table, 'thead'), 'tr')
  for (const text of ['this window', 'admitted here', 'counted here', 'left by this count']) {
    add(head, 'th', '', text).scope = 'col'
  }
  const body = add(table, 'tbody')
  for (const [i, { name }] of regions.entries()) {
    const row = add(body, 'tr', `c${i}`)
    const cell = add(row, 'td')
    add(cell, 'span', 'dot')
    cell.append(name)
    for (let column = 0; column < 3; column++) add(row, 'td')
  }
}

function showRegion(card, { isCut, lagMs }) {
  card.classList.toggle('cut', isCut)
  const [, about, button] = card.children
  const lag = lagMs === undefined ? 'unknown' : ageText(lagMs)
  about.textContent = `${isCut ? 'Cut off.' : 'Connected.'} Oldest call that another region does not know: ${lag}`
  about.className = isCut ? 'bad' : 'quiet'
  button.textContent = isCut ? 'Connect it again' : 'Cut it off'
}

function showCaller(part, { counted, admitted }, { state, points, nowMs }) {
  const { max } = state
  const sum = admitted.reduce((total, each) => total + each, 0)
  const beyond = Math.max(0, sum - max)
  const text = part.querySelector('.sum')
  text.textContent =
    beyond > 0 ? `admitted ${sum}: ${beyond} beyond the limit` : `admitted ${sum} of ${max}`
  text.className = beyond > 0 ? 'sum bad' : 'sum quiet'
  const rows = part.querySelectorAll('tbody tr')
  for (const [i, row] of [...rows].entries()) {
    const count = counted[i]
    const shown = [admitted[i], count ?? 'unknown', count === undefined ? '' : max - count]
    for (const [column, value] of shown.entries()) row.children[column + 1].textContent = value
  }
  draw(part.querySelector('svg'), { max, points, nowMs })
}

function draw(chart, { max, points, nowMs }) {
  const xOf = (atMs) => WIDTH * (1 - (nowMs - atMs) / SHOWN_MS)
  const yOf = (count) => HEIGHT - (HEIGHT * count) / (max * 1.1)
  const limit = chart.querySelector('.limit')
  for (const [name, value] of [
    ['x1', 0],
    ['x2', WIDTH],
    ['y1', yOf(max)],
    ['y2', yOf(max)],
  ]) {
    limit.setAttribute(name, value)
  }
  for (const [i, line] of [...chart.querySelectorAll('polyline')].entries()) {
    const known = points.filter(({ counted }) => typeof counted[i] === 'number')
    const text = known.map(({ atMs, counted }) => `${xOf(atMs).toFixed(1)},${yOf(counted[i])}`)
    line.setAttribute('points', text.join(' '))
  }
}

function ageText(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`
}

function add(parent, tag, className = '', text = '') {
  const element = document.createElement(tag)
  if (className !== '') element.className = className
  element.textContent = text
  parent.append(element)
  return element
}

function setText(selector, text) {
  document.querySelector(selector).textContent = String(text)
}
