/**
 * What was admitted beyond a limit, from the times of all admissions of all nodes. Times are
 * microseconds since 1970, sorted; every call costs 1; `limit` is `{ algorithm, max, windowMs }`.
 */

/**
 * The most that was admitted beyond what the algorithm itself allows: in every window, or in every
 * interval up to `spanUs`.
 */
export function excessOf(limit, times, spanUs = Infinity) {
  const { algorithm, max, windowMs } = limit
  if (algorithm === 'fixed-window') return excessOfWindows(times, max, windowMs * 1000)
  // A bucket admits burst + rate * t in any interval t, a sliding counter max * (1 + t / window):
  // with a burst of max, and a rate of max in a window, the two are one formula.
  return excessOverLine(times, { burst: max, rate: max / (windowMs * 1000), spanUs })
}

function excessOfWindows(times, max, windowUs) {
  let most = 0
  let count = 0
  let current = -1
  for (const time of times) {
    const window = Math.floor(time / windowUs)
    count = window === current ? count + 1 : 1
    current = window
    most = Math.max(most, count - max)
  }
  return most
}

/**
 * The most over all pairs i <= j of (j - i + 1) - burst - rate * (t_j - t_i), in one pass: of the i
 * that lie near enough only those are kept that are better than all after them, best first.
 */
function excessOverLine(times, { burst, rate, spanUs }) {
  const [start = 0] = times
  const lineAt = (i) => rate * (times[i] - start) - i
  const kept = []
  let first = 0
  let most = 0
  for (let j = 0; j < times.length; j++) {
    while (kept.length > first && lineAt(kept.at(-1)) <= lineAt(j)) kept.pop()
    kept.push(j)
    while (times[j] - times[kept[first]] > spanUs) first += 1
    most = Math.max(most, 1 - lineAt(j) + lineAt(kept[first]) - burst)
  }
  return most
}

/** The most calls that lie within any interval of this length. */
export function mostWithin(times, spanUs) {
  let most = 0
  let from = 0
  for (const [i, time] of times.entries()) {
    while (time - times[from] >= spanUs) from += 1
    most = Math.max(most, i - from + 1)
  }
  return most
}

/**
 * What a limiter that sees every call at once makes of them: how many it would have admitted, and
 * how much room it would have had, at most, when one was refused. `calls` are `{ time, admitted,
 * from, until }`, sorted by time. One that was refused after a wait was refused at some moment
 * within it, so the room counts that was there from the first to the last.
 */
export function besideExact(limit, calls) {
  return { admissible: admissibleOf(limit, calls), room: Math.floor(roomAtRefusals(limit, calls)) }
}

function admissibleOf(limit, calls) {
  const model = MODELS[limit.algorithm](limit)
  let admissible = 0
  for (const { time } of calls) {
    if (model.roomAt(time) < 1) continue
    model.spend()
    admissible += 1
  }
  return admissible
}

function roomAtRefusals(limit, calls) {
  const model = MODELS[limit.algorithm](limit)
  const moments = calls
    .flatMap(({ time, admitted, from, until }, call) =>
      admitted ? [{ time }] : [from, until].map((each) => ({ time: each, call })),
    )
    .toSorted((a, b) => a.time - b.time)
  const rooms = new Map()
  let most = 0
  for (const { time, call } of moments) {
    const room = model.roomAt(time)
    const before = rooms.get(call)
    if (call === undefined) model.spend()
    else if (before === undefined) rooms.set(call, room)
    else most = Math.max(most, Math.min(room, before))
  }
  return most
}

const MODELS = {
  'token-bucket': modelBucket,
  'fixed-window': modelWindow,
  'sliding-window-counter': modelSliding,
}

function modelBucket({ max, windowMs }) {
  const rate = max / (windowMs * 1000)
  let level = max
  let at
  return {
    roomAt: (time) => {
      level = Math.min(max, level + rate * (time - (at ?? time)))
      at = time
      return level
    },
    spend: () => {
      level -= 1
    },
  }
}

function modelWindow({ max, windowMs }) {
  let window
  let count = 0
  return {
    roomAt: (time) => {
      const now = Math.floor(time / (windowMs * 1000))
      if (now !== window) count = 0
      window = now
      return max - count
    },
    spend: () => {
      count += 1
    },
  }
}

/** What was admitted beyond the limit in the last window does not count in this one. */
function modelSliding({ max, windowMs }) {
  const windowUs = windowMs * 1000
  let window
  let before = 0
  let count = 0
  return {
    roomAt: (time) => {
      const now = Math.floor(time / windowUs)
      if (now !== window) {
        before = now === (window ?? now) + 1 ? Math.min(max, count) : 0
        count = 0
      }
      window = now
      return max - count - before * (1 - (time % windowUs) / windowUs)
    },
    spend: () => {
      count += 1
    },
  }
}
