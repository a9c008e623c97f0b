import { describe, expect, test } from 'vitest'
import { createPacedFetch } from './paced-fetch.js'

describe('createPacedFetch', () => {
  test('sends a call and returns its response', async () => {
    const urls: string[] = []
    const paced = createPacedFetch(async (input) => {
      urls.push(String(input))
      return new Response('body', { headers: { RateLimit: '"a";r=9;t=1' } })
    })
    const response = await paced('https://api.example.com/orders')
    expect(await response.text()).toBe('body')
    expect(urls).toEqual(['https://api.example.com/orders'])
    expect(paced.stats()).toMatchObject({ sent: 1, answered: 1, refused: 0, inFlight: 0 })
  })
})
