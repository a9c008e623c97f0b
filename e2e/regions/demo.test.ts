/** The demo of three regions, driven by its page. */
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Program, startProgram, waitFor } from '../process.test-helper.js'
import { useChromium } from '../dashboard/chromium.test-helper.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Counts of regions that are connected are apart by what is on its way on a busy machine. */
const TOGETHER = 12
const APART = 30

interface DemoState {
  readonly regions: readonly { readonly name: string; readonly isCut: boolean }[]
  readonly callers: readonly {
    readonly name: string
    readonly counted: readonly number[]
    readonly admitted: readonly number[]
  }[]
}

const chromium = useChromium()
let demo: Program
let page = ''

beforeAll(async () => {
  demo = startProgram(process.execPath, ['demo/main.mjs', 'regions', '--port', '0'], { cwd: ROOT })
  const printed = () => /^ +page +(\S+)$/m.exec(demo.output())?.[1]
  await waitFor(demo, () => printed() !== undefined)
  page = printed() ?? ''
})
afterAll(async () => {
  if (!demo.hasEnded()) demo.signal('SIGTERM')
  await demo.code()
})

async function state(): Promise<DemoState> {
  return (await (await fetch(`${page}state`)).json()) as DemoState
}

/** What the three regions have counted of a caller, and what they admitted in all. */
async function look(caller: string) {
  const found = (await state()).callers.find(({ name }) => name === caller)
  const counted = found?.counted ?? []
  const sum = (found?.admitted ?? []).reduce((total, each) => total + each, 0)
  return { least: Math.min(...counted), most: Math.max(...counted), admitted: sum }
}

const post = async (path: string, headers = {}) =>
  (await fetch(`${page}${path}`, { method: 'POST', headers })).status

test('three regions count together', async () => {
  await waitFor(demo, async () => {
    const { least, most, admitted } = await look('steady')
    return least >= 50 && most - least <= TOGETHER && Math.abs(admitted - most) <= TOGETHER
  })
})

test('a region that is cut off counts by itself, and the counts meet when it is connected', async () => {
  expect(await post('cut?region=us-east')).toBe(204)
  expect((await state()).regions.length).toBe(3)
  await waitFor(demo, async () => {
    const { least, most } = await look('steady')
    return most - least >= APART
  })
  expect(await post('heal?region=us-east')).toBe(204)
  await waitFor(demo, async () => {
    const { least, most } = await look('steady')
    // In a new window all begin at 0, but a region that has counted so many alone is apart.
    return least >= APART && most - least <= TOGETHER
  })
})

test('the page shows the regions, and its button cuts one off', async () => {
  const tab = await (await chromium.open(page.replace(/\/$/, ''), { width: 1000 })).newPage()
  await tab.goto(page)
  const card = tab.locator('.card', { hasText: 'ap-south' })
  await card.getByRole('button', { name: 'Cut it off' }).click()
  await card.getByText('Cut off.').waitFor()
  await card.getByRole('button', { name: 'Connect it again' }).click()
  await card.getByText('Connected.').waitFor()
  const rows = tab.locator('.caller tbody tr')
  expect(await rows.count()).toBe(6)
  await tab.close()
})

test('a region that does not exist and a request of another page are refused', async () => {
  expect(await post('cut?region=atlantis')).toBe(400)
  expect(await post('cut?region=us-east', { origin: 'http://elsewhere.example' })).toBe(403)
})

test('it ends with SIGTERM and leaves no server behind', async () => {
  const urls = [...demo.output().matchAll(/http:\/\/127\.0\.0\.1:(\d+)\//g)]
  expect(urls).toHaveLength(4)
  demo.signal('SIGTERM')
  expect(await demo.code()).toBe(0)
  const answers = await Promise.all(urls.map(([, port]) => listens(Number(port))))
  expect(answers).toEqual([false, false, false, false])
})

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}
