/**
 * As much of the messages of `envoy.service.ratelimit.v3` as it takes to print a request and to
 * answer it. Fields that are not known are kept by their number, so that none is overlooked.
 */
const UNITS = ['unknown', 'second', 'minute', 'hour', 'day', 'month', 'year']

/** A descriptor without `hitsAddend` has no such field: 0 is another request. */
export const decodeRequest = message({
  1: { name: 'domain', read: text },
  2: {
    name: 'descriptors',
    isList: true,
    read: message({
      1: {
        name: 'entries',
        isList: true,
        read: message({
          1: { name: 'key', read: text, absent: '' },
          2: { name: 'value', read: text, absent: '' },
        }),
      },
      2: {
        name: 'limit',
        read: message({
          1: { name: 'requestsPerUnit', absent: 0 },
          2: { name: 'unit', read: (number) => UNITS[number], absent: 'unknown' },
        }),
      },
      3: { name: 'hitsAddend', read: wrapped },
      4: { name: 'isNegativeHits', read: Boolean, absent: false },
    }),
  },
  3: { name: 'hitsAddend', absent: 0 },
})

function text(bytes) {
  return bytes.toString('utf8')
}

function wrapped(bytes) {
  return message({ 1: { name: 'value', absent: 0 } })(bytes).value
}

function message(fields) {
  return (bytes) => {
    const found = Object.fromEntries(
      Object.values(fields).flatMap(({ name, absent }) =>
        absent === undefined ? [] : [[name, absent]],
      ),
    )
    for (let at = 0; at < bytes.length; ) {
      const tag = varint()
      const number = tag >> 3
      const value = (tag & 7) === 2 ? chunk() : varint()
      const { name = `field ${number}`, read, isList } = fields[number] ?? {}
      const item = read === undefined ? plain(value) : read(value)
      if (isList) (found[name] ??= []).push(item)
      else found[name] = item

      function varint() {
        let sum = 0
        for (let factor = 1; ; factor *= 128) {
          const byte = bytes[at++]
          sum += (byte & 127) * factor
          if (byte < 128) return sum
        }
      }
      function chunk() {
        const length = varint()
        at += length
        return bytes.subarray(at - length, at)
      }
    }
    return found
  }
}

function plain(value) {
  return typeof value === 'number' ? value : value.toString('hex')
}

const OK = 1
const OVER_LIMIT = 2
const MINUTE = 2

export const ANSWER_OK = Buffer.concat([numberField(1, OK), bytesField(2, status(OK, 7))])

export const PROBLEM = '{"title":"Too Many Requests","status":429}'

/** With a header of its own, and a body in place of the empty one. */
export const ANSWER_OVER_LIMIT = Buffer.concat([
  numberField(1, OVER_LIMIT),
  bytesField(2, status(OVER_LIMIT, 0)),
  header('content-type', 'application/problem+json'),
  header('ratelimit', '"interop";r=0;t=17'),
  bytesField(5, Buffer.from(PROBLEM)),
])

/** Of a limit of 10 a minute that is whole again after 17 seconds. */
function status(code, remaining) {
  const limit = Buffer.concat([
    numberField(1, 10),
    numberField(2, MINUTE),
    bytesField(3, Buffer.from('ten')),
  ])
  return Buffer.concat([
    numberField(1, code),
    bytesField(2, limit),
    numberField(3, remaining),
    bytesField(4, numberField(1, 17)),
  ])
}

function header(name, value) {
  return bytesField(
    3,
    Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, Buffer.from(value))]),
  )
}

/** All numbers and lengths here are below 128. */
function numberField(field, value) {
  return Buffer.from([field << 3, value])
}

function bytesField(field, value) {
  return Buffer.concat([Buffer.from([(field << 3) | 2, value.length]), value])
}
