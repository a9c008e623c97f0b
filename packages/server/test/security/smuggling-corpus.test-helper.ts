/**
 * Requests that two servers could end at two places, so that one of them would read a request that
 * the other never counted. Each hides a request for /smuggled where a lenient parser finds it.
 */

/**
 * refused: this status, the connection is closed, and not a byte is forwarded. It stays open if
 * only the path is invalid: the length of the request is unambiguous.
 * one: exactly this request is forwarded, with this body.
 * cut: the head was valid and was forwarded before the rest arrived; the upstream receives no end.
 */
export type Fate =
  | { readonly is: 'refused'; readonly status: number; readonly stays?: boolean }
  | { readonly is: 'one'; readonly line: string; readonly body: string }
  | { readonly is: 'cut' }

/** The bytes are one piece, or pieces that arrive one after the other. */
export type Entry = readonly [name: string, bytes: string | readonly string[], fate: Fate]

export const HOST = 'Host: a.example\r\n'
export const NEXT = `GET /smuggled HTTP/1.1\r\n${HOST}\r\n`

const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const LAST = '0\r\n\r\n'
const BAD = { is: 'refused', status: 400 } as const
const BAD_PATH: Fate = { ...BAD, stays: true }
const CUT: Fate = { is: 'cut' }

const refused = (status: number): Fate => ({ is: 'refused', status })
const one = (body: string, line = 'POST /x'): Fate => ({ is: 'one', line, body })
const head = (headers: string, line = 'POST /x HTTP/1.1') => `${line}\r\n${HOST}${headers}\r\n`
const length = (bytes: string) => `Content-Length: ${bytes.length}\r\n`
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const get = (headers: string, line = 'GET /x HTTP/1.1') => head(headers, line)

/** A length that covers everything, beside something that a lenient parser reads as chunked. */
const lengthAnd = (header: string) => head(`${length(LAST + NEXT)}${header}\r\n`) + LAST + NEXT
/** Something that a lenient parser reads as chunked, and nothing else. */
const only = (header: string) => head(`${header}\r\n`) + LAST + NEXT

const BOTH: readonly Entry[] = [
  ['a length, then chunked', lengthAnd('Transfer-Encoding: chunked'), BAD],
  ['chunked, then a length', head(CHUNKED + length(LAST + NEXT)) + LAST + NEXT, BAD],
  ['chunked and a short length', head(`${CHUNKED}Content-Length: 4\r\n`) + chunk(NEXT) + LAST, BAD],
  ['chunked and a length of 0', head(`${CHUNKED}Content-Length: 0\r\n`) + chunk(NEXT) + LAST, BAD],
  ['both in lower case', lengthAnd('transfer-encoding: chunked'), BAD],
  ['both, one listed in Connection', lengthAnd(`Connection: transfer-encoding\r\n${CHUNKED}`), BAD],
  ['both, the other listed', lengthAnd(`Connection: content-length\r\n${CHUNKED}`), BAD],
  ['chunked with HTTP/1.0', head(CHUNKED, 'POST /x HTTP/1.0') + LAST + NEXT, BAD],
  [
    'both with HTTP/1.0',
    head(CHUNKED + length(LAST + NEXT), 'POST /x HTTP/1.0') + LAST + NEXT,
    BAD,
  ],
]

const ODD_ENCODINGS = [
  'xchunked',
  'chunk',
  'chunkedx',
  'identity',
  'chunked, identity',
  'identity, chunked',
  'gzip, chunked',
  'chunked, chunked',
  'chunked,',
  ', chunked',
  'chunked;q=1',
  'chunked; a=b',
  '"chunked"',
  "'chunked'",
  'c hunked',
  'chunked chunked',
  '\x0bchunked',
  '\x0cchunked',
  'chunked\x0b',
  'chunked\x00',
  'chunked\x7f',
  '\xa0chunked',
  'chun\x00ked',
  '',
]

const ENCODINGS: readonly Entry[] = [
  ...ODD_ENCODINGS.flatMap((value): Entry[] => [
    [`encoding ${JSON.stringify(value)}`, only(`Transfer-Encoding: ${value}`), BAD],
    [`a length and ${JSON.stringify(value)}`, lengthAnd(`Transfer-Encoding: ${value}`), BAD],
  ]),
  ['chunked twice', only(CHUNKED + CHUNKED.trimEnd()), BAD],
  ['identity, then chunked', only(`Transfer-Encoding: identity\r\n${CHUNKED.trimEnd()}`), BAD],
  ['chunked, then identity', only(`${CHUNKED}Transfer-Encoding: identity`), BAD],
  ['chunked, then nothing', only(`${CHUNKED}Transfer-Encoding:`), BAD],
  ['chunked and a tab', only('Transfer-Encoding: chunked\t'), BAD],
  ['CHUNKED', head('Transfer-Encoding: CHUNKED\r\n') + chunk(NEXT) + LAST, one(NEXT)],
  ['chunked and a space', head('Transfer-Encoding: chunked \r\n') + chunk(NEXT) + LAST, one(NEXT)],
  ['a tab and chunked', head('Transfer-Encoding:\tchunked\r\n') + chunk(NEXT) + LAST, one(NEXT)],
]

const NAMES: readonly Entry[] = [
  ['a space after the name', lengthAnd('Transfer-Encoding : chunked'), BAD],
  ['a tab after the name', lengthAnd('Transfer-Encoding\t: chunked'), BAD],
  ['VT after the name', lengthAnd('Transfer-Encoding\x0b: chunked'), BAD],
  ['NUL in the name', lengthAnd('Transfer-Encoding\x00: chunked'), BAD],
  ['a space in the name', lengthAnd('Transfer Encoding: chunked'), BAD],
  ['a byte above ASCII in the name', lengthAnd('Transfer-Encoding\xa0: chunked'), BAD],
  ['no colon', lengthAnd('Transfer-Encoding chunked'), BAD],
  ['a space before the name', lengthAnd(' Transfer-Encoding: chunked'), BAD],
  ['a folded encoding', lengthAnd('Transfer-Encoding:\r\n chunked'), BAD],
  ['a folded list', lengthAnd('Transfer-Encoding: identity\r\n , chunked'), BAD],
  ['an encoding folded into another header', lengthAnd('X: y\r\n Transfer-Encoding: chunked'), BAD],
  ['an encoding after a bare LF', lengthAnd('X: y\nTransfer-Encoding: chunked'), BAD],
  ['an encoding after a bare CR', lengthAnd('X: y\rTransfer-Encoding: chunked'), BAD],
  ['an encoding after CR CR LF', lengthAnd('X: y\r\r\nTransfer-Encoding: chunked'), BAD],
  ['an encoding after NUL', lengthAnd('X: y\x00Transfer-Encoding: chunked'), BAD],
  // Names that some servers read as the real one are dropped.
  ['Transfer_Encoding', lengthAnd('Transfer_Encoding: chunked'), one(LAST + NEXT)],
  ['Transfer.Encoding', lengthAnd('Transfer.Encoding: chunked'), one(LAST + NEXT)],
  ['TransferEncoding', lengthAnd('TransferEncoding: chunked'), one(LAST + NEXT)],
  ['Content_Length', lengthAnd('Content_Length: 5'), one(LAST + NEXT)],
  ['Content.Length', lengthAnd('content.length: 5'), one(LAST + NEXT)],
  [
    'Content_Length beside chunked',
    head(`${CHUNKED}Content_Length: 4\r\n`) + chunk(NEXT) + LAST,
    one(NEXT),
  ],
  ['an encoding in TE and Trailer', lengthAnd('TE: chunked\r\nTrailer: Host'), one(LAST + NEXT)],
  ['Content-Encoding: chunked', lengthAnd('Content-Encoding: chunked'), one(LAST + NEXT)],
]

const ODD_LENGTHS = ['+5', '-5', '-0', '0x5', '5e0', '5.0', '05', '005', '00', '5, 5', '5,', '5 5']
  .concat(['5;', '"5"', '5\x0b', '5\x00', '\x0b5', '', '٥', '5a', 'five', '18446744073709551621'])
  .concat(['9007199254740993', '99999999999999999999', '4294967301x'])

const LENGTHS: readonly Entry[] = [
  ...ODD_LENGTHS.map(
    (value): Entry => [
      `a length of ${JSON.stringify(value)}`,
      head(`Content-Length: ${value}\r\n`) + `hello${NEXT}`,
      BAD,
    ],
  ),
  ['two lengths, the same', head('Content-Length: 5\r\n'.repeat(2)) + `hello${NEXT}`, BAD],
  ['two lengths', head(`Content-Length: 5\r\n${length(`hello${NEXT}`)}`) + `hello${NEXT}`, BAD],
  [
    'two lengths, one empty',
    head('Content-Length: 5\r\nContent-Length:\r\n') + `hello${NEXT}`,
    BAD,
  ],
  ['a space after Content-Length', head('Content-Length : 5\r\n') + `hello${NEXT}`, BAD],
  ['a folded length', head('Content-Length:\r\n 5\r\n') + `hello${NEXT}`, BAD],
  ['spaces around a length', head(`Content-Length:   ${NEXT.length}  \r\n`) + NEXT, one(NEXT)],
]

const LINES: readonly Entry[] = [
  ['a head that ends with LF LF', `GET /x HTTP/1.1\r\n${HOST.trimEnd()}\n\n${NEXT}`, BAD],
  ['a head that ends with CR LF LF', `GET /x HTTP/1.1\r\n${HOST}\n${NEXT}`, BAD],
  ['a head of bare LF', `GET /x HTTP/1.1\nHost: a.example\n\n${NEXT}`, BAD],
  ['a head of bare CR', `GET /x HTTP/1.1\rHost: a.example\r\r${NEXT}`, BAD],
  ['a request after a bare LF in a value', get(`X: y\n\n${NEXT}`), BAD],
  ['a request after a bare CR in a value', get(`X: y\r\r${NEXT}`), BAD],
  ['a request after a space in the target', get('', 'GET /x /smuggled HTTP/1.1'), BAD],
  ['a request after the version', get('', 'GET /x HTTP/1.1 GET /smuggled HTTP/1.1'), BAD],
  ['a CR in the target', get('', 'GET /x\r/smuggled HTTP/1.1'), BAD],
  ['HTTP/0.9', `GET /x\r\n${NEXT}`, BAD],
  ['HTTP/1.2', get('', 'GET /x HTTP/1.2') + NEXT, BAD],
  ['a length of HTTP/1.0', head(length(NEXT), 'POST /x HTTP/1.0') + NEXT, one(NEXT)],
]

/** The text in place of the size of a chunk of five bytes. */
const ODD_SIZES = ['0x5', '+5', '-5', ' 5', '5 ', '\t5', '5\t', '5g', '', 'five', '5 ;a', '5\x00']
  .concat(['10000000000000005', 'FFFFFFFFFFFFFFFFF', '5;a\nb', '5;a\rb', '5\n', '5;a="\n"'])
  .concat(['5;a\x00b', '5,5'])

const CHUNKS: readonly Entry[] = [
  ...ODD_SIZES.map(
    (size): Entry => [
      `a chunk of ${JSON.stringify(size)}`,
      head(CHUNKED) + `${size}\r\nhello\r\n${LAST}${NEXT}`,
      BAD,
    ],
  ),
  ['a size that ends with LF', head(CHUNKED) + `5\nhello\r\n${LAST}${NEXT}`, BAD],
  ['a size that ends with CR', head(CHUNKED) + `5\rhello\r\n${LAST}${NEXT}`, BAD],
  ['a chunk without its line end', head(CHUNKED) + `5\r\nhello${LAST}${NEXT}`, BAD],
  ['a chunk that ends with LF', head(CHUNKED) + `5\r\nhello\n${LAST}${NEXT}`, BAD],
  ['a chunk longer than its size', head(CHUNKED) + `5\r\nhelloXX\r\n${LAST}${NEXT}`, BAD],
  ['a last chunk and a bare LF', head(CHUNKED) + `0\n\n${NEXT}`, BAD],
  ['a request for a trailer', head(CHUNKED) + `0\r\n${NEXT}`, BAD],
  ['a length for a trailer', head(CHUNKED) + `0\r\n${length(NEXT)}\r\n${NEXT}`, BAD],
  ['a trailer with a bare LF', head(CHUNKED) + `0\r\nX: y\n${NEXT}`, BAD],
  ['a trailer that is folded', head(CHUNKED) + `0\r\nX: y\r\n ${NEXT}`, BAD],
  ['an encoding for a trailer', head(CHUNKED) + `${chunk(NEXT)}0\r\n${CHUNKED}\r\n`, BAD],
  [
    'a host, an address and a token for trailers',
    head(CHUNKED) +
      `${chunk(NEXT)}0\r\nHost: b\r\nX-Forwarded-For: 1.2.3.4\r\nAuthorization: Bearer a\r\n\r\n`,
    one(NEXT),
  ],
  ['an extension', head(CHUNKED) + `5;a=b\r\nhello\r\n${LAST}`, one('hello')],
  ['a last chunk of 000', head(CHUNKED) + `5\r\nhello\r\n000\r\n\r\n`, one('hello')],
  ['a size with zeros before it', head(CHUNKED) + `0005\r\nhello\r\n${LAST}`, one('hello')],
  ['a size in capitals', head(CHUNKED) + `A\r\nhellohello\r\n${LAST}`, one('hellohello')],
  ['a bad size after a good chunk', [head(CHUNKED) + chunk('hello'), `0x5\r\nhello${NEXT}`], CUT],
  ['a bad end after a good chunk', [`${head(CHUNKED)}5\r\nhel`, `loXX\r\n${LAST}${NEXT}`], CUT],
  ['a bad trailer after the body', [head(CHUNKED) + chunk('hello'), `0\r\n${NEXT}`], CUT],
]

/** Bodies that a server which does not read them would parse as a request. */
const UNREAD: readonly Entry[] = [
  ['a request in the body of a POST', head(length(NEXT)) + NEXT, one(NEXT)],
  ['a request in a chunk', head(CHUNKED) + chunk(NEXT) + LAST, one(NEXT)],
  ['the body of a GET', get(length(NEXT)) + NEXT, one(NEXT, 'GET /x')],
  ['chunks of a GET', get(CHUNKED) + chunk(NEXT) + LAST, one(NEXT, 'GET /x')],
  ['the body of OPTIONS', get(length(NEXT), 'OPTIONS /x HTTP/1.1') + NEXT, one(NEXT, 'OPTIONS /x')],
  [
    'chunks of OPTIONS',
    get(CHUNKED, 'OPTIONS /x HTTP/1.1') + chunk(NEXT) + LAST,
    one(NEXT, 'OPTIONS /x'),
  ],
  ['the body of DELETE', get(length(NEXT), 'DELETE /x HTTP/1.1') + NEXT, one(NEXT, 'DELETE /x')],
  ['what follows a POST without a length', `${head('')}G${NEXT}`, one('')],
  ['what follows Connection: close', get('Connection: close\r\n') + NEXT, one('', 'GET /x')],
]

const HOSTS: readonly Entry[] = [
  ['two hosts', `GET /x HTTP/1.1\r\n${HOST}${HOST}\r\n${NEXT}`, BAD],
  ['no host', `GET /x HTTP/1.1\r\n\r\n${NEXT}`, BAD],
  ['two hosts, different', `GET /x HTTP/1.1\r\n${HOST}Host: b.example\r\n\r\n${NEXT}`, BAD],
  ['a space after Host', `GET /x HTTP/1.1\r\nHost : a.example\r\n\r\n${NEXT}`, BAD],
  ['a list of hosts', `GET /x HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n${NEXT}`, BAD],
  ['a host with a path', `GET /x HTTP/1.1\r\nHost: a.example/smuggled?\r\n\r\n${NEXT}`, BAD],
  ['a folded host', `GET /x HTTP/1.1\r\nHost: a.example\r\n b\r\n\r\n${NEXT}`, BAD],
  ['no host', 'GET /x HTTP/1.1\r\n\r\n', BAD],
  ['another host in the target', get('', 'GET http://b.example/x HTTP/1.1') + NEXT, BAD],
  ['a user in the target', get('', 'GET http://a.example@b.example/x HTTP/1.1') + NEXT, BAD],
  ['a target without a scheme', get('', 'GET //b.example/smuggled HTTP/1.1'), BAD_PATH],
  ['a target of host and port', get('', 'GET a.example:80 HTTP/1.1') + NEXT, BAD],
  ['a fragment', get('', 'GET /x#/smuggled HTTP/1.1') + NEXT, BAD],
  ['a line end in the path', get('', 'GET /x%0d%0aGET%20/smuggled HTTP/1.1'), BAD_PATH],
  ['the same host in the target', get('', 'GET http://a.example/x HTTP/1.1'), one('', 'GET /x')],
  [
    'a line end in the query',
    get('', 'GET /x?%0d%0aGET%20/smuggled HTTP/1.1'),
    one('', 'GET /x?%0d%0aGET%20/smuggled'),
  ],
]

const KEY = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const WEBSOCKET = `Connection: Upgrade\r\nUpgrade: websocket\r\n${KEY}`
const H2C = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

const OPTIONS: readonly Entry[] = [
  [
    'Connection: content-length',
    head(`Connection: content-length\r\n${length(NEXT)}`) + NEXT,
    one(NEXT),
  ],
  [
    'Connection: transfer-encoding',
    head(`Connection: transfer-encoding\r\n${CHUNKED}`) + chunk(NEXT) + LAST,
    one(NEXT),
  ],
  ['Connection: host', get('Connection: host, x-forwarded-for\r\n'), one('', 'GET /x')],
  [
    'Connection: close, content-length',
    head(`Connection: close, content-length\r\n${length(NEXT)}`) + NEXT,
    one(NEXT),
  ],
  [
    'Proxy-Connection and Keep-Alive',
    head(`Proxy-Connection: x\r\nKeep-Alive: 9\r\n${length(NEXT)}`) + NEXT,
    one(NEXT),
  ],
  ['Expect and a body at once', head(`Expect: 100-continue\r\n${length(NEXT)}`) + NEXT, one(NEXT)],
  [
    'Expect and chunks at once',
    head(`Expect: 100-continue\r\n${CHUNKED}`) + chunk(NEXT) + LAST,
    one(NEXT),
  ],
  ['Expect of a GET', get(`Expect: 100-continue\r\n${length(NEXT)}`) + NEXT, one(NEXT, 'GET /x')],
  [
    'Expect twice',
    head(`${'Expect: 100-continue\r\n'.repeat(2)}${length(NEXT)}`) + NEXT,
    one(NEXT),
  ],
  ['Expect: something else', head(`Expect: tea\r\n${length(NEXT)}`) + NEXT, refused(417)],
  ['Expect: something else, and no body', `${head('Expect: tea\r\n')}${NEXT}`, refused(417)],
  ['CONNECT', get('', 'CONNECT a.example:80 HTTP/1.1') + NEXT, refused(405)],
  ['TRACE', get('', 'TRACE /x HTTP/1.1') + NEXT, refused(405)],
  ['h2c', get(H2C) + NEXT, one('', 'GET /x')],
  ['h2c and a preface', get(H2C) + PREFACE, one('', 'GET /x')],
  ['h2c with a body', head(H2C + length(NEXT)) + NEXT, one(NEXT)],
  ['h2c with chunks', head(H2C + CHUNKED) + chunk(NEXT) + LAST, one(NEXT)],
  ['the preface of HTTP/2', PREFACE + NEXT, BAD],
  ['a WebSocket with a body', get(WEBSOCKET + length(NEXT)) + NEXT, BAD],
  ['a WebSocket with a length of 0', `${get(`${WEBSOCKET}Content-Length: 0\r\n`)}${NEXT}`, BAD],
  ['a WebSocket with chunks', get(WEBSOCKET + CHUNKED) + chunk(NEXT) + LAST, BAD],
  ['a WebSocket by POST', head(WEBSOCKET) + NEXT, BAD],
  ['a WebSocket that the upstream does not take up', get(WEBSOCKET) + NEXT, one('', 'GET /x')],
  ['a WebSocket of no version', get(WEBSOCKET.replace('13', '777')) + NEXT, one('', 'GET /x')],
  [
    'a WebSocket after two hosts',
    `GET /x HTTP/1.1\r\n${HOST}${HOST}\r\n${get(WEBSOCKET, 'GET /smuggled HTTP/1.1')}`,
    BAD,
  ],
]

export const CORPUS: readonly Entry[] = [
  ...BOTH,
  ...ENCODINGS,
  ...NAMES,
  ...LENGTHS,
  ...LINES,
  ...CHUNKS,
  ...UNREAD,
  ...HOSTS,
  ...OPTIONS,
]
