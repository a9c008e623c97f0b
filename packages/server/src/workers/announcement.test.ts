import { expect, test } from 'vitest'
import { Announcement } from './announcement.js'

function announcementOf(count: number) {
  const events: string[] = []
  const announcement = new Announcement<string>({
    count,
    onListening: (text) => events.push(text),
    onLate: ({ ready, count: all }) => events.push(`${ready} of ${all}`),
  })
  return { announcement, events }
}

function check(announcement: Announcement<string>, times: number): void {
  for (let i = 0; i < times; i++) announcement.check()
}

test('addresses are printed once, when all workers are ready', () => {
  const { announcement, events } = announcementOf(2)
  announcement.addReady('a', 'addresses')
  expect(events).toEqual([])
  announcement.addReady('b', '')
  announcement.addReady('c', 'others')
  check(announcement, 100)
  expect(events).toEqual(['addresses'])
})

test('a worker that is ready and exits is waited for again', () => {
  const { announcement, events } = announcementOf(2)
  announcement.addReady('a', 'addresses')
  announcement.remove('a')
  announcement.addReady('b', 'addresses')
  expect(events).toEqual([])
})

test('addresses are printed without the replacement of a worker that exited', () => {
  const { announcement, events } = announcementOf(3)
  announcement.addReady('a', 'addresses')
  announcement.stopWaiting()
  expect(events).toEqual(['addresses'])
})

test('a worker that neither becomes ready nor exits is waited for during 60 checks', () => {
  const { announcement, events } = announcementOf(2)
  announcement.addReady('a', 'addresses')
  check(announcement, 59)
  expect(events).toEqual([])
  check(announcement, 1)
  expect(events).toEqual(['1 of 2', 'addresses'])
  check(announcement, 100)
  expect(events).toHaveLength(2)
})

test('nothing is printed before a worker is ready, however long that takes', () => {
  const { announcement, events } = announcementOf(2)
  check(announcement, 500)
  expect(events).toEqual([])
  announcement.addReady('a', 'addresses')
  check(announcement, 59)
  expect(events).toEqual([])
})
